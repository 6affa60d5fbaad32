"""Rotary positions: queries and keys are rotated by an angle that grows with their position.

Components i and i + half of a head are a point in the plane. At position p it is rotated by p ·
base^(−i / half): the first pair by one radian per token, the last by almost nothing. The product of
a query and a key then depends only on their relative angle, that is on the distance of the two
tokens. Nothing is learned, so checkpoints store nothing.

The table depends on the positions, not on the rank: a context rank computes the rows of its
positions and rotates its keys before it sends them; all tensor ranks have the same table."""

from __future__ import annotations

import torch
from torch import Tensor


def turned_width(head_width: int, percent: float) -> int:
    """Return the number of rotated components of a head; the rest stays as it is
    (--rotary-percent)."""
    return int(head_width * percent)


def turns_of(positions: Tensor, turned: int, base: float) -> Tensor:
    """Return cosines and sines, [2, positions, turned / 2].

    Computed in float64: the angle of a late position is large, and float32 would lose the digits on
    which the cosine depends."""
    pair = torch.arange(turned // 2, dtype=torch.float64)
    angles = torch.outer(positions.double(), base ** (-2 * pair / turned))
    return torch.stack([angles.cos(), angles.sin()])


def turn(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate x [positions, …, width]; samples, groups and heads in between are rotated alike."""
    half = turns.shape[2]
    between = [1] * (x.ndim - 2)
    # [pairs] of each position, shaped to broadcast over the dimensions in between.
    cosine, sine = turns.to(x.dtype).view(2, -1, *between, half).unbind()
    # The points of the plane are (one, two), and the rotation matrix rotates them.
    one, two, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    return torch.cat([one * cosine - two * sine, two * cosine + one * sine, rest], -1)
