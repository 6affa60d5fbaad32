"""However ranks share the weather model, they compute what one rank does alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from one_forecast import program, steps

from process.errors import ArgumentsError
from weather.configuration import parse

SMALL = (
    "--train-samples 0 --valid-samples 37 --embed-dim 48 --depth 2 --num-heads 12 --crop-width 24 "
    "--global-batch-size 24 --forecast state"
)
STEPS = 4


def sizes(tensor=1, context=1, order="tp-cp-dp"):
    return (
        f"--tensor-model-parallel-size {tensor} --context-parallel-size {context} "
        f"--rank-order {order}"
    )


LAYOUTS = [
    (1, sizes(), ""),
    (2, sizes(), ""),
    (2, sizes(tensor=2), ""),
    (2, sizes(context=2), ""),
    (3, sizes(), ""),
    (3, sizes(tensor=3), ""),
    (4, sizes(tensor=2, context=2), ""),
    (4, sizes(tensor=2, order="dp-tp-cp"), ""),
    (4, sizes(context=2, order="cp-tp-dp"), "--forecast change"),
    (4, sizes(tensor=4), ""),
    (5, sizes(context=5), "--crop-width 20"),
    (6, sizes(tensor=3, context=2, order="cp-tp-dp"), ""),
    (6, sizes(context=3), ""),
    (7, sizes(tensor=7), "--embed-dim 56 --num-heads 7"),
    (8, sizes(tensor=2, context=2), ""),
    (8, sizes(tensor=2, context=2, order="cp-tp-dp"), ""),
    (8, sizes(tensor=4, order="tp-cp-ep-dp-pp"), ""),
    (8, sizes(context=8), ""),
]
KINDS = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(scope="module")
def alone(worlds, weather):
    """What one rank computes; asked for once."""
    known = {}

    def of(more, kind):
        if (more, kind) not in known:
            argv = ["--data", str(weather), *SMALL.split(), *more.split()]
            [known[more, kind]] = worlds(1).run(steps, argv, STEPS, kind)
        return known[more, kind]

    return of


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("ranks", "layout", "more"), LAYOUTS)
def test_losses_gradients_and_scores_are_those_of_one_rank(
    ranks, layout, more, kind, alone, worlds, weather
):
    argv = ["--data", str(weather), *SMALL.split(), *more.split(), *layout.split()]
    right, within = alone(more, kind), KINDS[kind]
    for found in worlds(ranks).run(steps, argv, STEPS, kind):
        assert found["losses"] == pytest.approx(right["losses"], rel=within)
        assert found["scores"] == pytest.approx(right["scores"], rel=within)
        for number, gradients in found["gradients"].items():
            wholes = {name: whole for name, (_, whole) in right["gradients"][number].items()}
            largest = max(np.abs(whole).max() for whole in wholes.values())
            for name, (here, gradient) in gradients.items():
                off = np.abs(gradient - wholes[name][here]).max()
                assert off < within * largest, (number, name, off, largest)
