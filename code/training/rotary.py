"""Rotary positions: queries and keys are turned by an angle that grows with their position.

Two components of a head, i and i + half, are taken as a point in the plane. At position p it is
turned by p · base^(−i / half): the first pair by one radian per token, the last by next to nothing.
The product of a query and a key then depends on the angle between them alone, that is on how far
apart the two tokens are. Nothing is learned, so nothing is stored in a checkpoint.

The table belongs to the positions, not to the rank: a context rank makes the rows of the positions
that it holds and turns its keys before it sends them; tensor ranks, whose heads differ, have the
same table.
"""

from __future__ import annotations

import torch
from torch import Tensor


def turned_width(head_width: int, percent: float) -> int:
    """Counts the components of a head that turn; the others pass as they are (--rotary-percent)."""
    return int(head_width * percent)


def turns_of(positions: Tensor, turned: int, base: float) -> Tensor:
    """Cosines and sines, [2, positions, turned / 2].

    In float64 until they are done: the angle of a late position is large, and in float32 it would
    have lost the digits that the cosine depends on.
    """
    pair = torch.arange(turned // 2, dtype=torch.float64)
    angles = torch.outer(positions.double(), base ** (-2 * pair / turned))
    return torch.stack([angles.cos(), angles.sin()])


def turn(x: Tensor, turns: Tensor) -> Tensor:
    """x is [positions, …, width]; whatever lies between (samples, groups, heads) turns alike."""
    half = turns.shape[2]
    between = [1] * (x.ndim - 2)
    # [pairs] of each position, shaped so that they serve all that lies between alike.
    cosine, sine = turns.to(x.dtype).view(2, -1, *between, half).unbind()
    # The points of the plane are (one, two), and multiplying by the rotation matrix turns them.
    one, two, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    return torch.cat([one * cosine - two * sine, two * cosine + one * sine, rest], -1)
