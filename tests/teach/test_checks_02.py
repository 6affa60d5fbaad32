"""Lesson 02: rings and data parallelism of learners, on four real ranks, each with its hint."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from course_lib.teach.checks import lesson02

from .answers_to_try import hold
from .finished_runs import hint_of
from .own_trials import swapped
from .versions import buckets, ddps, rings

GIVEN = SimpleNamespace(rank=23, numbers=32)
CHECKS = {
    "ring": lesson02.ex02_ring, "ddp": lesson02.ex02_ddp, "buckets": lesson02.ex02_buckets,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "exercise"),
    [(rings.PROGRAM, "ring"), (ddps.PROGRAM, "ddp"), (buckets.PROGRAM, "ddp"),
     (buckets.PROGRAM, "buckets")],
)  # fmt: skip
def test_right_ones_pass(tried, capsys, text, exercise):
    CHECKS[exercise](tried(text, exercise))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(3)
@pytest.mark.parametrize("name", rings.RIGHT)
def test_right_rings_of_other_forms_pass(tried, name):
    lesson02.ex02_ring(tried(swapped(rings.PROGRAM, *rings.RIGHT[name]), "ring"))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", rings.WRONG)
def test_a_wrong_ring_is_told_its_mistake(tried, name):
    pairs, words = rings.WRONG[name]
    assert words in hint_of(lesson02.ex02_ring, tried(swapped(rings.PROGRAM, *pairs), "ring"))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", ddps.RIGHT)
def test_right_ddps_of_other_forms_pass(tried, name):
    lesson02.ex02_ddp(tried(swapped(ddps.PROGRAM, *ddps.RIGHT[name]), "ddp"))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", ddps.WRONG)
def test_a_wrong_ddp_is_told_its_mistake(tried, name):
    pairs, words = ddps.WRONG[name]
    assert words in hint_of(lesson02.ex02_ddp, tried(swapped(ddps.PROGRAM, *pairs), "ddp"))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", buckets.RIGHT)
def test_right_buckets_of_other_forms_pass(tried, name):
    lesson02.ex02_buckets(tried(swapped(buckets.PROGRAM, *buckets.RIGHT[name]), "buckets"))


@pytest.mark.many(3)
@pytest.mark.parametrize("name", buckets.WRONG)
def test_wrong_buckets_are_told_their_mistake(tried, name):
    pairs, words = buckets.WRONG[name]
    run = tried(swapped(buckets.PROGRAM, *pairs), "buckets")
    hint = hint_of(lesson02.ex02_buckets, run)
    assert any(one in hint for one in ([words] if isinstance(words, str) else words))


HOSTILE = {
    "def ring_all_reduce(tensor:\n": "line 1: SyntaxError",
    "import no_such_module\n": "No module named 'no_such_module'",
    "while True: pass\n": "The program does not end: at line 1",
    "def ring_all_reduce(tensor):\n    while True: pass\n": "a loop that never ends",
    "def ring_all_reduce(tensor):\n    while True: print('x' * 999)\n": "printed more than 256 KiB",
    "def ring_all_reduce(tensor):\n    import os; os._exit(0)\n": "ended too early",
    "def ring_all_reduce(tensor):\n    import os; os.fork()\n": "the tensor has not changed",
    "def ring_all_reduce():\n    pass\n": "TypeError",
}


@pytest.mark.many(3)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_file_is_told_what_it_does(tried, text):
    assert HOSTILE[text] in hint_of(lesson02.ex02_ring, tried(text, "ring"))


def test_rank_23_on_eight_nodes_with_four_devices(workspace, capsys):
    lesson02.ex02_ranks(5, 3, 32, 1, GIVEN)
    lesson02.ex02_ranks(5.0, np.int64(3), Fraction(32), 1, GIVEN)
    assert "✓ the node of rank 23 is right" in capsys.readouterr().out


def test_each_number_is_taken_in_every_form_and_a_wrong_one_meets_its_hint(workspace):
    def with_answer(**given):
        known = {"node": 5, "local_rank": 3, "world_size": 32, "numbers": 1}
        lesson02.ex02_ranks(**{**known, **given}, given=GIVEN)

    wrong = {
        "world_size": {8: "number of nodes", 4: "on one node", 12: "multiply, do not add"},
        "node": {6: "counted from 0", 2: "4 ranks, not 8", 3: "local rank", 5.5: "Ranks 0 to 3"},
        "local_rank": {4: "counted from 0", 23: "rank among all", 7: "4 ranks, not 8"},
        "numbers": {
            32: "what all_reduce leaves",
            8: "one node",
            1024: "as long as the tensor",
        },
    }
    for name, right in {"world_size": 32, "node": 5, "local_rank": 3, "numbers": 1}.items():
        hold(name, lambda answer, name=name: with_answer(**{name: answer}), right, wrong[name])
