"""Lesson 13b: a sequence cut over four real ranks, and the positions of each rank."""

from __future__ import annotations

import sys
from itertools import count

import numpy as np
import pytest

from course_lib.teach.checks import lesson13b

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

CONTEXT = program_of("13b_long_sequences_by_hand", "context-own")
tried = tried_with_swaps(CONTEXT, "context")


BOTH = "keys, values = Gather.apply(x @ self.wk), Gather.apply(x @ self.wv)"
TOGETHER = "keys, values = Gather.apply(torch.cat([x @ self.wk, x @ self.wv], 1)).chunk(2, 1)"
HIDDEN = "Gather.apply(positions)[None, :]"


TWICE = "torch.maximum(Gather.apply(positions), Gather.apply(positions))[None, :]"
GATHERS = "dist.all_gather_single(whole, x.contiguous())"
BY_BROADCASTS = """for rank, piece in enumerate(whole.chunk(dist.get_world_size())):
            if rank == dist.get_rank():
                piece.copy_(x)
            dist.broadcast(piece, rank)"""
REPLACES = """            total = parameter.grad.clone()
            dist.all_reduce(total)
            parameter.grad = total
"""


@pytest.mark.parametrize(
    "pairs",
    [
        [], [(BOTH, TOGETHER)], [(HIDDEN, TWICE)], [(GATHERS, BY_BROADCASTS)],
        [("            dist.all_reduce(parameter.grad)\n", REPLACES)],
    ],
)  # fmt: skip
def test_right_ones_pass(tried, capsys, pairs):
    lesson13b.ex13b_context(tried(*pairs))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


SCATTERS = "        dist.reduce_scatter_single(mine, grad.contiguous())\n"
SUMS = "            dist.all_reduce(parameter.grad)\n"
ALL = "queries = x @ self.wq"
TOGETHER_WITH_QUERIES = """here = dist.get_rank() * len(x)
        both = torch.cat([self.wq, self.wk, self.wv], 1)
        queries, keys, values = Gather.apply(x @ both).chunk(3, 1)
        queries = queries[here : here + len(x)]"""
MASK = f"{HIDDEN} > positions[:, None]"
WRONG = {
    "queries in one gather": ([(ALL, TOGETHER_WITH_QUERIES), (f"        {BOTH}\n", "")],
                              "Queries stay where they are"),
    "a weight changed": ([(SUMS, SUMS + "            dist.all_reduce(parameter.data)\n")],
                         "finish has changed a weight"),
    "no key at all": ([(MASK, MASK.replace(">", ">="))], "see no key"),
    "inverted": ([(MASK, MASK.replace(">", "<"))], "and no other"),
    "exchanged": ([("keys, values = G", "values, keys = G")], "queries look at wrong keys"),
    "not summed": ([(SUMS, "            pass\n")], "finish must add up"),
    "own keys": ([(BOTH, BOTH.replace("Gather.apply", "")), (HIDDEN, "positions[None, :]")],
                 "only the positions of its own rank"),
    "no mask": ([('.masked_fill(hidden, float("-inf"))', "")], "queries look at wrong keys"),
    "cut in backward": (
        [(SCATTERS, "        mine = grad.chunk(dist.get_world_size())[dist.get_rank()].clone()\n")],
        "the backward pass of the all-gather is a reduce-scatter",
    ),
}  # fmt: skip


@pytest.mark.many(2)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_attention_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson13b.ex13b_context, tried(*pairs))


def early_and_late(length, rank, size):
    piece = length // (2 * size)
    starts = rank * piece, (2 * size - 1 - rank) * piece
    return [start + place for start in starts for place in range(piece)]


def test_right_pieces_pass_in_every_form(workspace, capsys):
    lesson13b.ex13b_pieces(early_and_late)
    lesson13b.ex13b_pieces(lambda *case: np.array(early_and_late(*case))[::-1])
    lesson13b.ex13b_pieces(lambda length, rank, size: early_and_late(length, size - 1 - rank, size))
    lesson13b.ex13b_pieces(lambda *, size, rank, length: early_and_late(length, rank, size))
    lesson13b.ex13b_pieces(lambda size, length, rank: set(early_and_late(length, rank, size)))
    lesson13b.ex13b_pieces(lambda *case: np.reshape(early_and_late(*case), (2, -1)))
    assert "✓ all ranks look back" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (..., "Replace the ..."),
        ("pieces", "the function itself"),
        (lambda length, rank, size: ..., "Is a gap still open"),
        (lambda length, rank, size: 1 / 0, "ZeroDivisionError"),
        (lambda length, rank, size: ["a"], "not a whole number"),
        (lambda length, rank, size: count(), "and each should have 16"),
        (lambda length, rank, size: sys.exit(), "the function ends the program"),
        (lambda length, rank, size: [0], "have 1, 1, 1, 1 positions"),
        (lambda length, rank, size: list(range(length)) if rank == 0 else [], "64, 0, 0, 0"),
        (lambda length, rank, size: range(length // size), "position 0 too often, and position 16"),
        (lambda *case: [one + 1 for one in early_and_late(*case)], "64 too often, and position 0 "),
        (lambda length, rank, size: range(rank * length // size, (rank + 1) * length // size),
         "Late positions look back further"),
        (lambda length, rank, size: [*range(rank * 8, rank * 8 + 8), *range(
            length // 2 + rank * 8, length // 2 + rank * 8 + 8)], "must also get a late piece"),
    ],
)  # fmt: skip
def test_wrong_pieces_are_told_their_mistake(workspace, function, words):
    assert words in hint_of(lesson13b.ex13b_pieces, function)
