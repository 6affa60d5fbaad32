"""The learning rate of a step equals the rate of Megatron-LM's scheduler."""

from __future__ import annotations

import one_run
import pytest

from flags.arguments import parse_arguments
from process.errors import ArgumentsError
from training.learning_rate import learning_rate


def rates(flags, steps):
    args = parse_arguments(["--global-batch-size", "8", *flags.split()])
    return [learning_rate(done, args) for done in steps]


def test_the_learning_rate_of_the_original_lab():
    """lr 6e-5 → 6e-6, cosine over 800 iterations, 1 % warm-up: 5.822E-05 after 100."""
    flags = (
        "--lr 6e-5 --min-lr 6e-6 --lr-decay-style cosine --lr-decay-iters 800 "
        "--lr-warmup-fraction 0.01"
    )
    got = rates(flags, [100, 8, 4, 0, 800, 900])
    assert f"{got[0]:.3E}" == "5.822E-05"
    assert got[1:] == [6e-5, 3e-5, 0, 6e-6, 6e-6]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--lr-decay-style constant", {0: 0, 5: 50, 10: 100, 99: 100, 200: 100}),
        ("--lr-decay-style linear", {10: 100, 55: 60, 100: 20, 101: 20}),
        ("--lr-decay-style cosine", {10: 100, 40: 80, 55: 60, 70: 40, 100: 20}),
        ("--lr-decay-style WSD --lr-wsd-decay-iters 20", {80: 100, 90: 20 + 80 * (2**0.5 - 1)}),
        (
            "--lr-decay-style WSD --lr-wsd-decay-iters 20 --lr-wsd-decay-style linear",
            {0: 0, 10: 100, 80: 100, 85: 80, 100: 20, 120: 20},
        ),
        (
            "--lr-decay-style WSD --lr-wsd-decay-iters 20 --lr-wsd-decay-style minus_sqrt",
            {80: 100, 85: 60, 100: 20},
        ),
        ("--lr-warmup-init 40", {0: 40, 5: 70, 10: 100}),
    ],
)
def test_every_shape_of_the_schedule(flags, expected):
    """Compare the rate after a number of steps. The warm-up has 10 steps, and the decay from 100 to
    20 ends at step 100."""
    shared = "--lr 100 --min-lr 20 --lr-warmup-iters 10 --lr-decay-iters 100"
    assert rates(f"{shared} {flags}", expected) == pytest.approx(list(expected.values()))


def test_the_first_step_of_a_warm_up_changes_nothing(worlds):
    """The rate of the first step is 0, as in Megatron-LM. The line after it shows the rate of the
    next step."""
    flags = "--lr-warmup-iters 2 --lr-decay-iters 10 --train-iters 3 --log-interval 1 --fp64"
    flags += " --lr-decay-style constant --weight-decay 0.1"
    got = worlds(1).run(one_run.weights_after_each_step, [*one_run.MODEL, *flags.split()], 2)[0]
    assert got["rates"] == [0, 0.005]
    assert got["moved"] == [False, True]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--min-lr 2 --lr 1", "--min-lr 2 is above --lr 1, the highest rate; give 1 or less"),
        ("--lr-warmup-fraction 0.1 --lr-warmup-iters 1", "choose one of --lr-warmup-fraction"),
        ("--lr-warmup-iters 10 --train-iters 10", "leaves no decay in --lr-decay-iters 10"),
        ("--lr-decay-style WSD", "go together"),
        ("--lr-decay-style WSD --lr-warmup-iters 4 --lr-wsd-decay-iters 7", "at most 6 of"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_told(flags, told):
    with pytest.raises(ArgumentsError, match=told):
        parse_arguments(flags.split())
