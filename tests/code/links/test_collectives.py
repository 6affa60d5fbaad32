"""Written-out all-reduces leave the same sum on every rank, on any node."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

PLACES = [["a", "a", "b", "b"], ["a", "a", "a", "b"], ["a", "b", "a", "b"]]


def summed(nodes, words, portion):
    from links import collectives

    collectives.NODE_OF[:] = nodes
    collectives.PORTION = portion
    found = {}
    for name in ("ring", "hierarchical"):
        tensor = torch.arange(words, dtype=torch.float32) + dist.get_rank()
        collectives.ALGORITHMS[name](tensor, list(range(dist.get_world_size())))
        found[name] = tensor.tolist()
    return found


@pytest.mark.parametrize("nodes", PLACES, ids="".join)
@pytest.mark.parametrize(("words", "portion"), [(1, 64), (7, 2), (1000, 64)])
def test_every_rank_ends_with_the_sum(worlds, nodes, words, portion):
    wanted = [4.0 * number + 6 for number in range(words)]
    for answers in worlds(4).run(summed, nodes, words, portion):
        assert answers == {"ring": wanted, "hierarchical": wanted}
