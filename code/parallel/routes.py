"""Routes of a pipeline's messages, and how neighbours are joined before the first of them."""

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
    """Between which ranks an activation or a gradient travels."""

    way: str
    peer: int
    tag: int


@dataclass(frozen=True)
class Route:
    """Peers of a rank's messages: activations travel to the next piece, gradients to the last."""

    ranks: Sequence[int]  # of the pipeline, in order
    index: int
    chunks: int

    def piece(self, step: Step) -> int:
        return step.chunk * len(self.ranks) + self.index

    @property
    def pieces(self) -> int:
        return len(self.ranks) * self.chunks

    def name(self, step: Step) -> str:
        """Names the range in a profile: "forward 3", "backward 3 chunk 1", "backward 3 weights"."""
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
        """Ranks that this one sends to and receives from that way; None where nobody is.

        Only the first and the last stage wrap, and only they have no neighbour on one side.
        """
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
        # Both ends name the message by the boundary that it crosses.
        boundary = max(self.piece(step), other_piece)
        tag = 2 * (step.micro_batch * self.pieces + boundary) + (kind == "backward")
        return Message(way, self.ranks[neighbour % stages], tag)


def connect(route: Route, directions: dict[str, Any], like: Tensor) -> None:
    """Sends nothing of use once each way, so that every mailbox can be opened at any time.

    NCCL joins two ranks when they first send to each other, and until both are there it holds up
    the program, also in isend and irecv, which else return at once. A schedule opens mailboxes
    early: the first stage that for a gradient before it sends an activation, the second one that
    for the activation first of all, and both would stay there for ever. Here all stages go one way
    together, then the next. gloo has joined them when it made the group.
    """
    if len(route.ranks) == 1 or dist.get_backend() == "gloo":
        return
    for way, group in directions.items():
        to, source = route.ends(way)
        moves = [] if to is None else [dist.P2POp(dist.isend, like.new_zeros(1), to, group)]
        if source is not None:
            moves.append(dist.P2POp(dist.irecv, like.new_zeros(1), source, group))
        for work in dist.batch_isend_irecv(moves) if moves else []:
            work.wait()
