"""Lesson 13b: a sequence cut over four real ranks, and who has which of its positions."""

from __future__ import annotations

import sys
from itertools import count

import numpy as np
import pytest

from course_lib.lab.job.recipes import program
from course_lib.teach.checks import lesson13b

from .finished_runs import MEMORY_LINE, hint_of, tried_with_swaps
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
    "no key at all": ([(MASK, MASK.replace(">", ">="))], "sees no key at all"),
    "inverted": ([(MASK, MASK.replace(">", "<"))], "the wrong way round"),
    "exchanged": ([("keys, values = G", "values, keys = G")], "keys and values are exchanged"),
    "not summed": ([(SUMS, "            pass\n")], "sum their gradients"),
    "own keys": ([(BOTH, BOTH.replace("Gather.apply", "")), (HIDDEN, "positions[None, :]")],
                 "only the positions of its own rank"),
    "no mask": ([('.masked_fill(hidden, float("-inf"))', "")], "positions look ahead"),
    "cut in backward": (
        [(SCATTERS, "        mine = grad.chunk(dist.get_world_size())[dist.get_rank()].clone()\n")],
        "backward of the all-gather is a reduce-scatter",
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
        (lambda length, rank, size: ..., "Fill in the gap"),
        (lambda length, rank, size: 1 / 0, "ZeroDivisionError"),
        (lambda length, rank, size: ["a"], "not a whole number"),
        (lambda length, rank, size: count(), "There is no position 64"),
        (lambda length, rank, size: sys.exit(), "it ends the program"),
        (lambda length, rank, size: [0], "Position 0 is on two ranks"),
        (lambda length, rank, size: [rank], "No rank has position 4"),
        (lambda length, rank, size: list(range(length)) if rank == 0 else [], "equally many"),
        (lambda length, rank, size: range(rank * length // size, (rank + 1) * length // size),
         "Each rank has neighbouring pieces"),
        (lambda length, rank, size: [*range(rank * 8, rank * 8 + 8), *range(
            length // 2 + rank * 8, length // 2 + rank * 8 + 8)], "must also get a late piece"),
    ],
)  # fmt: skip
def test_wrong_pieces_are_told_their_mistake(workspace, function, words):
    assert words in hint_of(lesson13b.ex13b_pieces, function)


EPOCH = """\
2026-01-01 10:00:00,000 - root - INFO - Time taken for epoch 1 is 1.0 sec, avg 12 samples/sec
2026-01-01 10:00:00,000 - root - INFO -   Avg train loss={loss}
2026-01-01 10:00:01,000 - root - INFO -   Avg val loss=0.18645772337913513
"""


@pytest.fixture
def forecaster(finished):
    def make(tensor=2, context=2, loss=0.147878, memory=300, log="", **more):
        recipe = program.recipe(
            "shared", "train_vit.py", nodes=2, gpus_per_node=2, device_memory_gib=memory / 1024,
            tensor_model_parallel_size=tensor, context_parallel_size=context, **more,
        )  # fmt: skip
        return finished(recipe, log or EPOCH.format(loss=loss), exit_code=41 if log else 0)

    return make


@pytest.mark.parametrize("right", [{}, {"rank_order": "cp-tp-dp"}, {"loss": 0.147879}])
def test_one_model_on_four_devices_with_most_context_passes(forecaster, capsys, right):
    lesson13b.ex13b_shared(forecaster(**right), forecaster(4, 1, memory=160))
    assert "its losses are those of tensor 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tensor": 1, "context": 4, "log": MEMORY_LINE.format(rank=1)}, "With tensor 1 it does"),
        ({"tensor": 1, "context": 4}, "Context 4 keeps all weights on every rank"),
        ({"tensor": 4, "context": 1}, "Tensor 4 fits in 160 MiB"),
        ({"tensor": 2, "context": 1}, "Tensor 2 × context 1 is 2: the other ranks have"),
        ({"memory": 1024}, 'forecaster("shared", 300'),
        ({"loss": 0.15}, "not the same model and samples"),
        ({"log": "Traceback: boom"}, "ended well"),
    ],
)
def test_other_ways_to_share_the_weather_model_are_told_what_they_are(forecaster, wrong, told):
    hint = hint_of(lesson13b.ex13b_shared, forecaster(**wrong), forecaster(4, 1, memory=160))
    assert told in hint


def test_no_run_at_all_is_no_traceback(forecaster):
    for nothing in (None, ..., 7, "shared"):
        assert hint_of(lesson13b.ex13b_shared, nothing, forecaster(4, 1))
        assert hint_of(lesson13b.ex13b_shared, forecaster(), nothing)
