"""Test 12.1: `noise_scale(gradients, samples)` estimates tr(Σ) and |G|² from ranks' gradients.

noise, true, error = noise_scale(gradients, samples)

gradients: [steps, parameters], this rank's mean over so many samples in each step. They are drawn
with a known G and Σ. The result is compared with the plain estimate from all of these gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trials.ranks import Ranks

STEPS, PARAMETERS, SAMPLES = 400, 30, 8


def test(noise_scale: Any, ranks: Ranks) -> None:
    if ranks.size == 1:  # one batch size is one equation
        return
    (true,), scales, drawn = ranks.draw(
        (1, PARAMETERS), (PARAMETERS,), (ranks.size, STEPS, PARAMETERS)
    )
    every = true + scales * drawn / SAMPLES**0.5
    found = ranks.run("drawn gradients", noise_scale, every[ranks.rank].clone(), SAMPLES)
    is_three = isinstance(found, list | tuple) and len(found) == 3
    ranks.holds("three numbers", is_three, has=type(found).__name__)
    mine = torch.stack([torch.as_tensor(one, dtype=every.dtype).reshape(()) for one in found])
    right = estimate(every)
    lengths, average = every.square().sum(2), every.mean(0)
    small, large = lengths.mean(), average.square().sum(1).mean()
    mistakes = {
        "own": estimate(every, small=lengths[ranks.rank]),
        "sum": estimate(every, mean=every.sum(0)),
        "sum of the small": estimate(every, small=lengths.sum(0)),
        "ratio": right / right[1],
        "biased": torch.stack([SAMPLES * (small - large), large, right[2]]),
    }
    if torch.isclose(mine[2], right[2] * (1 - 1 / STEPS) ** 0.5, rtol=1e-9):
        mine[2] = right[2]  # a deviation that divides by all steps is as good
    for number, what in enumerate(("tr(Σ)", "|G|²", "the standard error")):
        ranks.same(what, mine[number], right[number], small=float(small), large=float(large),
                   b=SAMPLES, B=SAMPLES * ranks.size,
                   mistakes={name: one[number] for name, one in mistakes.items()})  # fmt: skip


def estimate(every: Tensor, mean: Tensor | None = None, small: Tensor | None = None) -> Tensor:
    """Return tr(Σ), |G|² and the standard error of tr(Σ), from the gradients of all ranks."""
    ranks, steps, _ = every.shape
    b, large = SAMPLES, SAMPLES * ranks
    of_small = every.square().sum(2).mean(0) if small is None else small
    of_large = (every.mean(0) if mean is None else mean).square().sum(1)
    noise = (of_small - of_large) / (1 / b - 1 / large)
    true = (large * of_large - b * of_small) / (large - b)
    return torch.stack([noise.mean(), true.mean(), noise.std() / steps**0.5])
