"""Lesson 02, many processes."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import EXACT, Quantity
from course_lib.teach.trials import verdict
from course_lib.teach.trials.exchange.averaging import why_ddp
from course_lib.teach.trials.exchange.overlap import in_buckets, is_own_work
from course_lib.teach.trials.exchange.rings import sends_as_a_ring, why_ring
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.verdict import Trial

COUNTED_FROM_0 = "Nodes and ranks are counted from 0."
NODES, EACH, RANK, WORLD = 8, 4, 22, 32
"""Of exercise 02.1."""
TOLD = {"the nodes": NODES, "the ranks of a node": EACH, "the rank": RANK, "all ranks": WORLD}
RANKS: dict[str, tuple[float, str, dict[float, str], str]] = {
    "world_size": (
        32, "the world has that many ranks",
        {8: "These are the nodes.", 4: "These are on one node.",
         12: "Each of the 8 nodes has 4 ranks: a product, not a sum."},
        "One rank for each device of each node.",
    ),
    "node": (
        5, "rank 22 is on that node",
        {6: COUNTED_FROM_0, 2: "Each node has 4 ranks, not 8.", 5.5: "Whole nodes: 22 // 4.",
         2.75: "Each node has 4 ranks, not 8.", 5.75: COUNTED_FROM_0, 7: "That is the last node.",
         0: "That is the first node, of ranks 0 to 3.", 88: "You multiplied where one divides."},
        "Ranks 0 to 3 are on node 0, 4 to 7 on node 1, and so on.",
    ),
    "local_rank": (
        2, "it has that local rank there",
        {3: COUNTED_FROM_0, 22: "That is its rank among all.", 6: "Each node has 4 ranks, not 8.",
         5: "That is its node. The rest of the division, 22 % 4, is its place there.",
         5.5: "22 / 4 tells the node; the rest of the division, 22 % 4, the place there.",
         0.5: "That is the rest as a fraction of a node. How many ranks are that?",
         0: "That is the first rank of the node, 20.", 18: "Take away all whole nodes before it.",
         2.75: "Each node has 4 ranks, not 8."},
        "Ranks 20 to 23 share its node. Which of them is it?",
    ),
    "numbers": (
        1, "it ends with so many numbers of the sum",
        {32: "That is what all_reduce leaves.", 8: "That is a piece for each rank of one node.",
         4: "That is a piece for each node.", 0: "Each rank keeps one piece of the sum.",
         16: "That is half. The sum has as many pieces as there are ranks.",
         1024: "You multiplied by the ranks. The sum has 32 numbers, as each summand.",
         31: "That is what it does not keep.", 62 / 32: "That is what a ring of 32 sends.",
         1 / 32: "That is the share of one piece. How many numbers are in it?"},
        "The sum has as many pieces as there are ranks, and each rank keeps one.",
    ),
}  # fmt: skip


def ex02_ranks(node: object, local_rank: object, world_size: object, numbers: object) -> None:
    """Rank 22 on 8 nodes with 4 devices each, and what reduce_scatter leaves of 32 numbers."""
    with Checklist("02.1") as check:
        given = {
            "world_size": check.number(world_size, "world_size"),
            "node": check.number(node, "node"),
            "local_rank": check.number(local_rank, "local_rank"),
            "numbers": check.number(numbers, "numbers"),
        }
        for name, (right, words, slips, otherwise) in RANKS.items():
            wanted = Quantity(right=right, share=EXACT, own=tuple(slips.items()), known=TOLD)
            check.amount(given[name], wanted, words, hint=otherwise)


def ex02_ring(run: Any) -> None:
    """A sum over all ranks, in place, by sends and receives round a ring."""
    with Checklist("02.2") as check:
        trial = verdict.trial_of(check, run, "ring")
        came_through(check, trial, run)
        verdict.is_equal(check, trial, why_ring)
        sends_as_a_ring(check, trial)


def ex02_ddp(run: Any) -> None:
    """Data parallelism: the weights of rank 0, the mean of the gradients."""
    with Checklist("02.3") as check:
        trial = verdict.trial_of(check, run, "ddp")
        _is_ddp(check, trial, run)


def ex02_buckets(run: Any) -> None:
    """The same, in buckets that are sent while backward goes on."""
    with Checklist("02.4") as check:
        trial = verdict.trial_of(check, run, "buckets")
        _is_ddp(check, trial, run)
        in_buckets(check, trial)


def _is_ddp(check: Checklist, trial: Trial, run: Any) -> None:
    came_through(check, trial, run)
    verdict.is_equal(check, trial, why_ddp)
    is_own_work(check, trial)
