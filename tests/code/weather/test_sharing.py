"""Ranks that share the weather model compute the same as one rank, in every layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from one_forecast import overflowing_steps, steps

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
    (2, sizes(tensor=2), ""),
    (2, sizes(context=2), ""),
    (4, sizes(tensor=2, context=2), ""),
    (4, sizes(tensor=2, order="dp-tp-cp"), ""),
    (4, sizes(context=2, order="cp-tp-dp"), "--forecast change"),
    (5, sizes(context=5), "--crop-width 20"),
    (6, sizes(tensor=3, context=2, order="cp-tp-dp"), ""),
    (8, sizes(tensor=2, context=2, order="cp-tp-dp"), ""),
]
KINDS = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(scope="module")
def alone(worlds, weather):
    """Result of one rank, computed once."""
    known = {}

    def of(more, kind):
        if (more, kind) not in known:
            argv = ["--data", str(weather), *SMALL.split(), *more.split()]
            [known[more, kind]] = worlds(1).run(steps, argv, STEPS, kind)
        return known[more, kind]

    return of


@pytest.mark.many(3)
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


@pytest.mark.parametrize("fused", ["true", "false"])
def test_an_overflow_in_one_slice_skips_the_step_on_all_ranks(fused, worlds, weather):
    flags = f"{SMALL} --amp-mode fp16 --fused-optimizer {fused} {sizes(tensor=2)}"
    moved = worlds(2).run(overflowing_steps, ["--data", str(weather), *flags.split()])
    assert moved == [[False, True], [False, True]]


@pytest.mark.parametrize(
    ("flags", "ranks", "told"),
    [
        (sizes(tensor=3), 4, "tensor 3 × context 1 × pipeline 1 = 3 devices; start 3, 6"),
        (f"{sizes(tensor=4)} --num-heads 6 --embed-dim 48", 4, "use a multiple of 4 \\(4 or 8\\)"),
        (f"{sizes(tensor=2)} --global-batch-size 3", 4, "divided by 2 data ranks; use 2"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused_with_a_cure(flags, ranks, told):
    with pytest.raises(ArgumentsError, match=told) as error:
        parse(flags.split(), ranks)
    assert error.value.exit_code == 2
