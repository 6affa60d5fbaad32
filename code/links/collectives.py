"""All-reduce written out with sends and receives, to be timed against what the backend does.

Each function leaves the sum over `ranks` in `tensor`, on each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist

NODE_OF: list[str] = []  # of each rank, filled once the ranks have met
PORTION = 1 << 16  # words of a long message that travel at once
GROUPS: dict[tuple[int, ...], Any] = {}  # making a group is a collective of everyone


def ring(tensor: torch.Tensor, ranks: Sequence[int]) -> None:
    """Every rank sends to the next one only. In n - 1 steps each rank gathers the whole sum of one
    piece, in n - 1 more the sums go round: 2 (n - 1) steps of 1/n of the data."""
    if len(ranks) < 2:
        return
    place = ranks.index(dist.get_rank())
    after, before = ranks[(place + 1) % len(ranks)], ranks[place - 1]
    pieces = list(tensor.tensor_split(len(ranks)))  # views: what is added there is added to tensor
    incoming = torch.empty_like(max(pieces, key=len))
    # Each step passes on the piece that the step before has brought, one more share in it each
    # time. After n - 1 steps the piece behind one's own place (place + 1) is whole, and goes on its
    # round. So at each moment all links are busy, each with another piece.
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
    """Both ways at once, portion by portion; a piece may be empty where there are more ranks than
    words.

    One call after the other would not do: if all ranks sent first, a send that waits for its
    receiver would wait for ever, round the ring. And where two ranks send each other one long
    message each, gloo lets the second wait for the first: the road would be used one way only.
    """
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
    """Adds up on the first rank of each node, then between these, and hands the result back, so
    that the road between the nodes is used by one rank of each.

    With m nodes, 2 (m - 1) / m of the data leave each: with two, as much as the data; one ring of
    all n ranks sends 2 (n - 1) / n over each road. The price: three rounds, one after the other.
    """
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
