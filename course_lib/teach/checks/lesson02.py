"""Checks of lesson 02, many processes."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import EXACT, Amount, Slip
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.words import _

# Nodes of exercise 02.1, and devices on each.
NODES, EACH = 8, 4


def ex02_ranks(node: Any, local_rank: Any, world_size: Any, numbers: Any, given: Any) -> None:
    """Check the place of a rank among 8 nodes with 4 devices, and the result of reduce_scatter."""
    from_0, not_8 = _("Nodes and ranks are counted from 0."), _("Each node has 4 ranks, not 8.")
    one_node = _("You divided by the number of nodes, or by the ranks of one node.")
    rank, (at, place), world = given.rank, divmod(given.rank, EACH), NODES * EACH
    asked: dict[str, tuple[object, float, str, tuple[Slip, ...], str]] = {
        "world_size": (
            world_size, world, _("the number of ranks is right"),
            ((NODES, _("That is the number of nodes.")),
             (EACH, _("That is the number of ranks on one node.")),
             (NODES + EACH, _("Each of the 8 nodes has 4 ranks: multiply, do not add."))),
            _("There is one rank for each device of each node."),
        ),
        "node": (
            node, at, _("the node of rank {rank} is right", rank=rank),
            ((at + 1, from_0), (rank // NODES, not_8), (place, _("That is the local rank."))),
            _("Ranks 0 to 3 are on node 0, ranks 4 to 7 on node 1, and so on."),
        ),
        "local_rank": (
            local_rank, place, _("the local rank is right"),
            ((place + 1, from_0), (rank, _("That is the rank among all ranks.")),
             (rank % NODES, not_8), (at, _("That is the number of the node."))),
            _("Ranks {first} to {last} share a node. Which of them is rank {rank}?",
              first=at * EACH, last=at * EACH + EACH - 1, rank=rank),
        ),
        "numbers": (
            numbers, given.numbers / world, _("the number of numbers on each rank is right"),
            ((given.numbers, _("That is what all_reduce leaves.")), (NODES, one_node),
             (EACH, one_node),
             (given.numbers * world, _("The sum is as long as the tensor of each rank."))),
            _("The sum has as many pieces as there are ranks, and each rank keeps one."),
        ),
    }  # fmt: skip
    with Checklist("02.1") as check:
        found = {name: check.number(answer, name) for name, (answer, *_rest) in asked.items()}
        for name, (_answer, right, words, slips, hint) in asked.items():
            wanted = Amount(right=right, share=EXACT, slips=slips)
            check.amount(found[name], wanted, words, hint=hint)


ex02_ring = tried("02.2", "ring")
ex02_ddp = tried("02.3", "ddp")
ex02_buckets = tried("02.4", "buckets")
