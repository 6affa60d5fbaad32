"""All-reduce algorithms from sends and receives, for comparison with the backend's.

Each function leaves the sum over `ranks` in `tensor`, on each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist

NODE_OF: list[str] = []  # node of each rank, set when the ranks have met
PORTION = 1 << 16  # words that a long message sends at once
GROUPS: dict[tuple[int, ...], Any] = {}  # creating a group is a collective of all ranks


def ring(tensor: torch.Tensor, ranks: Sequence[int]) -> None:
    """Sum by a ring: every rank sends only to the next rank. After n - 1 steps each rank has the
    whole sum of one piece; n - 1 more steps distribute the sums: 2 (n - 1) steps of 1/n of the
    data."""
    if len(ranks) < 2:
        return
    place = ranks.index(dist.get_rank())
    after, before = ranks[(place + 1) % len(ranks)], ranks[place - 1]
    pieces = list(tensor.tensor_split(len(ranks)))  # views: adding to a piece changes tensor
    incoming = torch.empty_like(max(pieces, key=len))
    # Each step passes on the piece that the previous step received, with one more summand. After n
    # - 1 steps the piece at place + 1 is complete and is passed round. So all links are busy all
    # the time, each with another piece.
    for step in range(2 * (len(ranks) - 1)):
        sent = pieces[(place - step) % len(ranks)]
        due = pieces[(place - step - 1) % len(ranks)]
        arrived = incoming[: len(due)]
        exchange(sent, after, arrived, before)
        if step < len(ranks) - 1:
            due += arrived
        else:
            due.copy_(arrived)


def exchange(sent: torch.Tensor, after: int, arrived: torch.Tensor, before: int) -> None:
    """Send and receive at once, in portions. A piece may be empty if there are more ranks than
    words.

    Separate calls would fail: if all ranks sent first, each send could wait forever. And if two
    ranks send each other one long message, gloo may use the link in one direction at a time."""
    portions = zip_longest(sent.split(PORTION), arrived.split(PORTION), fillvalue=sent[:0])
    for leaving, coming in portions:
        moves = []
        if len(leaving):
            moves.append(dist.P2POp(dist.isend, leaving, after))
        if len(coming):
            moves.append(dist.P2POp(dist.irecv, coming, before))
        for work in dist.batch_isend_irecv(moves) if moves else []:
            work.wait()


def hierarchical(tensor: torch.Tensor, ranks: Sequence[int]) -> None:
    """Add up on the first rank of each node, then between these ranks, and send the result back, so
    that one rank of each node uses the link between nodes.

    With m nodes, 2 (m - 1) / m of the data leave each node: for two nodes, the size of the data.
    One ring of all n ranks sends 2 (n - 1) / n over each link. The cost is three sequential
    phases."""
    homes = [NODE_OF[rank] for rank in ranks]
    mine = [
        rank for rank, home in zip(ranks, homes, strict=True) if home == NODE_OF[dist.get_rank()]
    ]
    first, others = mine[0], mine[1:]
    if dist.get_rank() != first:
        dist.send(tensor, first)
        dist.recv(tensor, first)
        return
    share = torch.empty_like(tensor)
    for other in others:
        dist.recv(share, other)
        tensor += share
    ring(tensor, [ranks[homes.index(home)] for home in dict.fromkeys(homes)])
    for other in others:
        dist.send(tensor, other)


def library(tensor: torch.Tensor, ranks: Sequence[int]) -> None:
    dist.all_reduce(tensor, group=GROUPS[tuple(ranks)])


ALGORITHMS: dict[str, Callable[[torch.Tensor, Sequence[int]], None]] = {
    "ring": ring,
    "hierarchical": hierarchical,
    "library": library,
}
