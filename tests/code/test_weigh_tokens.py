"""Means of a step's losses, and which mean gives the gradient of the whole batch."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

STEPS = 12


def program(mean_over, *more):
    from weigh_tokens import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["--mean-over", mean_over, "--train-iters", str(STEPS), *more])
    return out.getvalue()


def told(worlds, mean_over, *more):
    """The columns of rank 0's iteration lines."""
    lines = worlds(2).run(program, mean_over, *more)[0]
    return {
        name: [float(value) for value in re.findall(rf"{name}: +([-+.\dE]+)", lines)]
        for name in ("lm loss", "gradient off by")
    }


@pytest.fixture(scope="module")
def runs(worlds):
    return {name: told(worlds, name) for name in ("micro-batch", "rank", "batch")}


def test_a_mean_over_the_tokens_of_the_batch_has_the_gradient_of_a_plain_model(runs):
    assert len(runs["batch"]["gradient off by"]) == STEPS
    assert max(runs["batch"]["gradient off by"]) < 1e-5


def test_the_other_means_have_another_gradient_from_the_first_step_on(runs):
    assert min(runs["micro-batch"]["gradient off by"]) > 0.3
    assert min(runs["rank"]["gradient off by"]) > 0.03


@pytest.mark.parametrize("mean_over", ["micro-batch", "rank", "batch"])
def test_with_equal_lengths_every_mean_is_the_same(worlds, mean_over):
    off = told(worlds, mean_over, "--short", "16", "--long", "16")["gradient off by"]
    assert max(off) < 1e-5
