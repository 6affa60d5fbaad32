"""Bytes that each use of `no_sync` sends, and whether the ranks still train one model."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

STEPS = 3


def program(sync):
    from accumulate_ddp import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["--sync", sync, "--width", "16", "--train-iters", str(STEPS)])
    return out.getvalue()


@pytest.fixture(scope="module")
def told(worlds):
    """The columns of rank 0's iteration lines, for each use of no_sync."""
    found = {}
    for sync in ("last", "every", "backward", "never"):
        lines = worlds(2).run(program, sync)[0]
        found[sync] = {
            name: [float(value) for value in re.findall(rf"{pattern}: +([-+.\dE]+)", lines)]
            for name, pattern in (
                ("loss", "lm loss"),
                ("mb", r"all-reduced \(MB\)"),
                ("calls", "all-reduces"),
                ("apart", "copies differ by"),
            )
        }
    return found


def test_a_loop_that_synchronises_last_sends_every_gradient_once(told):
    gradients_mb = 4 * (64 * 16 + 16 + 16 * 16 + 16 + 16 + 1) / 1e6
    assert told["last"]["mb"] == pytest.approx([gradients_mb] * STEPS, abs=1e-3)


def test_forgetting_no_sync_or_leaving_forward_outside_sends_it_for_each_micro_batch(told):
    once = told["last"]["calls"]
    assert told["every"]["calls"] == told["backward"]["calls"] == [4 * n for n in once]
    assert told["never"]["calls"] == [0] * STEPS


def test_the_first_three_train_the_same_model(told):
    for sync in ("every", "backward"):
        assert told[sync]["loss"] == pytest.approx(told["last"]["loss"], rel=1e-5)
        assert told[sync]["apart"] == [0.0] * STEPS


def test_without_any_synchronisation_the_copies_part(told):
    apart = told["never"]["apart"]
    assert 0 < apart[0] < apart[-1]
    assert told["never"]["loss"][-1] != pytest.approx(told["last"]["loss"][-1], rel=1e-5)
