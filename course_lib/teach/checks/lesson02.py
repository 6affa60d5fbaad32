"""Checks of lesson 02, many processes."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import EXACT, Amount, Slip
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import is_right
from course_lib.words import _

# Numbers of exercise 02.1.
NODES, EACH, RANK, NUMBERS = 8, 4, 22, 32


def ex02_ranks(node: object, local_rank: object, world_size: object, numbers: object) -> None:
    """Check the place of rank 22 among 8 nodes with 4 devices, and the result of reduce_scatter."""
    from_0, not_8 = _("Nodes and ranks are counted from 0."), _("Each node has 4 ranks, not 8.")
    one_node = _("That is a piece for each node, or for each rank of one node.")
    (at, place), world = divmod(RANK, EACH), NODES * EACH
    asked: dict[str, tuple[object, float, str, tuple[Slip, ...], str]] = {
        "world_size": (
            world_size, world, _("the world has this many ranks"),
            ((NODES, _("That is the number of nodes.")),
             (EACH, _("That is the number of ranks on one node.")),
             (NODES + EACH, _("Each of the 8 nodes has 4 ranks: multiply, do not add."))),
            _("There is one rank for each device of each node."),
        ),
        "node": (
            node, at, _("rank 22 is on this node"), ((at + 1, from_0), (RANK // NODES, not_8)),
            _("Ranks 0 to 3 are on node 0, ranks 4 to 7 on node 1, and so on."),
        ),
        "local_rank": (
            local_rank, place, _("this is its local rank"),
            ((place + 1, from_0), (RANK, _("That is the rank among all ranks.")),
             (RANK % NODES, not_8), (at, _("That is the number of the node."))),
            _("Ranks 20 to 23 share its node. Which of them is rank 22?"),
        ),
        "numbers": (
            numbers, NUMBERS / world, _("each rank ends with this number of numbers"),
            ((NUMBERS, _("That is what all_reduce leaves.")), (NODES, one_node), (EACH, one_node),
             (NUMBERS * world, _("The sum has 32 numbers, like the tensor of each rank."))),
            _("The sum has as many pieces as there are ranks, and each rank keeps one."),
        ),
    }  # fmt: skip
    with Checklist("02.1") as check:
        given = {name: check.number(answer, name) for name, (answer, *_rest) in asked.items()}
        for name, (_answer, right, words, slips, hint) in asked.items():
            wanted = Amount(right=right, share=EXACT, slips=slips)
            check.amount(given[name], wanted, words, hint=hint)


def ex02_ring(run: Any) -> None:
    """Check an all-reduce in place, made of sends and receives around a ring."""
    with Checklist("02.2") as check:
        is_right(check, run, "ring")


def ex02_ddp(run: Any) -> None:
    """Check data parallelism: weights of rank 0, mean of the gradients."""
    with Checklist("02.3") as check:
        is_right(check, run, "ddp")


def ex02_buckets(run: Any) -> None:
    """Check data parallelism with buckets that are sent during backward."""
    with Checklist("02.4") as check:
        is_right(check, run, "buckets")
