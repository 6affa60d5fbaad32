"""Test 04.1: `reduce_scatter(tensor, node_of)` leaves rank r the sum of piece r, by messages.

`node_of[r]` is the node of rank r. The test counts the pieces that leave each node. A piece for a
rank of another node has to leave once, as the sum over all ranks of the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from trials.ranks import Ranks

ROWS, WIDTH = 3, 8
TOPOLOGIES = {
    1: {"one node": [0]},
    2: {"one node of 2": [0, 0], "two nodes of 1": [0, 1]},
    3: {"nodes of 2 and 1": [0, 0, 1]},
    4: {
        "two nodes of 2": [0, 0, 1, 1],
        "two nodes of 2, ranks in turn": [0, 1, 0, 1],
        "nodes of 1 and 3": [1, 0, 0, 0],
        "nodes of 2, 1 and 1": [2, 0, 2, 1],
    },
}


def test(reduce_scatter: Any, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    for case, node_of in TOPOLOGIES[size].items():
        tensors = ranks.draw(*[(size * ROWS, WIDTH)] * size)
        piece = ranks.run(case, reduce_scatter, tensors[rank].clone(), list(node_of))
        ranks.only_messages()
        total = torch.stack(tensors).sum(0)
        summands = [one.chunk(size)[rank] for one in tensors]
        ranks.same("the piece", piece, total.chunk(size)[rank], summands=summands, mistakes={
            "whole": total, "of the next rank": total.chunk(size)[(rank + 1) % size],
        })  # fmt: skip
        ranks.agree()
        budget(ranks, node_of)


def budget(ranks: Ranks, node_of: Sequence[int]) -> None:
    """Assert that no more pieces leave the node of this rank than have to."""
    node, sent = node_of[ranks.rank], torch.zeros(ranks.size)
    sent[node] = own = sum(
        one["numbers"] / (ROWS * WIDTH) for one in ranks.calls.made
        if one["call"] == "send" and node_of[one["peer"]] != node
    )  # fmt: skip
    dist.all_reduce(sent)
    left, needed = float(sent[node]), ranks.size - node_of.count(node)
    mistake = "of each rank" if own == needed and left > needed else ""
    if [*node_of] != sorted(node_of):  # right as long as ranks were numbered by node
        mistake = "rank numbers"
    ranks.holds("budget", left <= needed, mistake=mistake, left=left, needed=needed)
