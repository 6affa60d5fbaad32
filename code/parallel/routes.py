"""Routes of a pipeline's messages, and the connections between neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from parallel.schedules import Backward, BackwardInput, Forward, Step

WAYS = ("forward", "backward", "forward wrap", "backward wrap")


@dataclass(frozen=True)
class Message:
    """Route of an activation or a gradient: the way, the other rank and the tag."""

    way: str
    peer: int
    tag: int


@dataclass(frozen=True)
class Route:
    """Ranks to which a rank sends: activations to the next piece, gradients to the previous one."""

    ranks: Sequence[int]  # the pipeline's ranks, in order
    index: int
    chunks: int

    def piece(self, step: Step) -> int:
        return step.chunk * len(self.ranks) + self.index

    @property
    def pieces(self) -> int:
        return len(self.ranks) * self.chunks

    def name(self, step: Step) -> str:
        """Return the range's name in a profile: "forward 3", "backward 3 chunk 1", "backward 3
        weights"."""
        chunk = f" chunk {step.chunk}" if self.chunks > 1 else ""
        return f"{step.phase} {step.micro_batch}{chunk}{step.half}"

    def incoming(self, step: Step) -> Message | None:
        if isinstance(step, Forward):
            return self._message(step, "forward", self.piece(step) - 1, self.index - 1)
        if isinstance(step, Backward | BackwardInput):
            return self._message(step, "backward", self.piece(step) + 1, self.index + 1)
        return None

    def outgoing(self, step: Step) -> Message | None:
        if isinstance(step, Forward):
            return self._message(step, "forward", self.piece(step) + 1, self.index + 1)
        if isinstance(step, Backward | BackwardInput):
            return self._message(step, "backward", self.piece(step) - 1, self.index - 1)
        return None

    def ends(self, way: str) -> tuple[int | None, int | None]:
        """Return the ranks that this rank sends to and receives from that way, or None.

        Only the first and last stage wrap around, and only they lack a neighbour on one side."""
        ahead, stages = 1 if way.startswith("forward") else -1, len(self.ranks)

        def rank_at(place: int) -> int | None:
            outside = not 0 <= place < stages
            return self.ranks[place % stages] if outside == way.endswith("wrap") else None

        return rank_at(self.index + ahead), rank_at(self.index - ahead)

    def _message(self, step: Step, kind: str, other_piece: int, neighbour: int) -> Message | None:
        if not 0 <= other_piece < self.pieces:
            return None
        stages = len(self.ranks)
        way = kind if 0 <= neighbour < stages else f"{kind} wrap"
        # Both ranks derive the tag from the boundary between the two pieces.
        boundary = max(self.piece(step), other_piece)
        tag = 2 * (step.micro_batch * self.pieces + boundary) + (kind == "backward")
        return Message(way, self.ranks[neighbour % stages], tag)


def connect(route: Route, directions: dict[str, Any], like: Tensor) -> None:
    """Send one dummy message each way, so that receives can be posted at any time later.

    NCCL connects two ranks at their first message, and blocks the program until both take part,
    even in isend and irecv. A schedule posts receives early: the first stage for a gradient before
    it sends an activation, the second stage for the activation. Both would block. Here all stages
    use the first route together, then all use the next route, and so on. gloo connects ranks when
    it creates the group."""
    if len(route.ranks) == 1 or dist.get_backend() == "gloo":
        return
    for way, group in directions.items():
        to, source = route.ends(way)
        moves = [] if to is None else [dist.P2POp(dist.isend, like.new_zeros(1), to, group)]
        if source is not None:
            moves.append(dist.P2POp(dist.irecv, like.new_zeros(1), source, group))
        for work in dist.batch_isend_irecv(moves) if moves else []:
            work.wait()
