"""Lesson 11: ZeRO-1 and FSDP of learners, on four real ranks, each with its hint."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.teach.checks import lesson11

from .answers_to_try import hold
from .finished_runs import hint_of
from .own_trials import swapped
from .versions import fsdps, zeros


@pytest.mark.parametrize("name", zeros.RIGHT)
def test_right_zeros_pass(tried, capsys, name):
    lesson11.ex11_zero1(tried(zeros.RIGHT[name], "zero1"))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(3)
@pytest.mark.parametrize("name", zeros.WRONG)
def test_a_wrong_zero_is_told_its_mistake(tried, name):
    pairs, words = zeros.WRONG[name]
    assert words in hint_of(lesson11.ex11_zero1, tried(swapped(zeros.PROGRAM, *pairs), "zero1"))


@pytest.mark.parametrize("name", fsdps.RIGHT)
def test_right_fsdps_pass(tried, capsys, name):
    lesson11.ex11_fsdp(tried(fsdps.RIGHT[name], "fsdp"))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(3)
@pytest.mark.parametrize("name", fsdps.WRONG)
def test_a_wrong_fsdp_is_told_its_mistake(tried, name):
    pairs, words = fsdps.WRONG[name]
    assert words in hint_of(lesson11.ex11_fsdp, tried(swapped(fsdps.PROGRAM, *pairs), "fsdp"))


def test_the_number_of_tokens_is_taken_in_every_form(workspace):
    wrong = {
        16000: "A factor 2 is missing", 4000: "A factor 2 is missing", 8: "1000 times a GFLOP/s",
        8000 / 3: "forward and backward", 64000: "P cancels out", 123: "P cancels out",
    }  # fmt: skip
    device = SimpleNamespace(tflops=400, gb_per_s=50)
    hold(
        "tokens_needed",
        lambda answer: lesson11.ex11_tokens(answer, device),
        8000,
        wrong,
        accepted=["8,000 tokens", "8k"],
    )
