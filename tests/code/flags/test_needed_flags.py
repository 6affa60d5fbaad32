"""A flag without the flag that it needs is refused if its result would never come, else noted."""

from __future__ import annotations

import pytest

from flags.arguments import parse_arguments
from process.errors import ArgumentsError


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--finetune", "--finetune needs --load: training would start from random weights"),
        ("--use-pytorch-profiler", "needs --profile"),
        ("--use-tp-pp-dp-mapping --rank-order cp-tp-dp-pp", "choose one of --use-tp-pp-dp-mapping"),
        (
            "--torch-compile --pipeline-schedule zero-bubble",
            "or --pipeline-schedule zero-bubble; leave out these",
        ),
        (
            "--profile --train-iters 10",
            "nothing to record in --train-iters 10; give an earlier step",
        ),
        ("--record-memory-history --train-iters 1", "or train longer"),
    ],
)
def test_what_would_never_come_is_refused(flags, told):
    with pytest.raises(ArgumentsError) as error:
        parse_arguments(flags.split())
    assert [told in problem for problem in error.value.problems] == [True]


@pytest.mark.parametrize(
    ("flags", "idle"),
    [
        ("--rotary-base 500", "--rotary-base"),
        ("--sequence-parallel", "--sequence-parallel"),
        ("--async-save", "--async-save"),
        ("--bf16 --hysteresis 3", "--hysteresis"),
    ],
)
def test_what_has_no_effect_is_taken_with_a_note(flags, idle):
    [note] = parse_arguments(flags.split()).notes
    assert note.startswith(f"{idle} has no effect: it needs ")


@pytest.mark.parametrize(
    "flags",
    [
        "--position-embedding-type rope --rotary-base 500",
        "--fp16 --hysteresis 3",
        "--save x --save-interval 5 --async-save",
        "--load x --finetune",
        "--profile --use-pytorch-profiler --train-iters 12 --profile-ranks 0",
    ],
)
def test_what_has_an_effect_is_not_noted(flags):
    assert parse_arguments(flags.split()).notes == []


def test_what_a_terminal_would_obey_is_spelt_out():
    from process.errors import error_lines

    with pytest.raises(ArgumentsError) as error:
        parse_arguments(["--num-layers", "1\n2\x1b[31m"])
    [line] = error_lines(error.value, 0, 1)
    assert line.isprintable()
