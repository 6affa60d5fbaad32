"""Test 12.1: `noise_scale(gradients, samples)` estimates tr(Σ) and |G|² from ranks' gradients.

noise, true, error = noise_scale(gradients, samples)

gradients: [steps, parameters], this rank's mean over so many samples in each step. They are drawn
with a known G and Σ. The result is compared with the plain estimate from all of these gradients.
The plain estimate is compared with the known values, within its own standard error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trials.ranks import Ranks

STEPS, PARAMETERS, SAMPLES = 400, 30, 8
# A correct estimate is further away once in ten million times.
MOST_ERRORS = 5.3


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
    right, slips = estimate(every), wrong_estimates(every, ranks.rank)
    if torch.isclose(mine[2], right[2] * (1 - 1 / STEPS) ** 0.5, rtol=1e-9):
        mine[2] = right[2]  # a deviation that divides by all steps is as good
    for number, what in enumerate(("tr(Σ)", "|G|²", "the standard error")):
        ranks.same(what, mine[number], right[number],
                   mistakes={name: one[number] for name, one in slips.items()})  # fmt: skip
    off = float((mine[0] - (scales**2).sum()).abs() / mine[2])
    ranks.holds("known", off <= MOST_ERRORS, off=off)


def estimate(
    every: Tensor, mean: Tensor | None = None, small: Tensor | None = None,
    sizes: tuple[float, float] | None = None,
) -> Tensor:  # fmt: skip
    """Return tr(Σ), |G|² and the standard error of tr(Σ), from the gradients of all ranks."""
    ranks, steps, _ = every.shape
    b, large = sizes or (SAMPLES, SAMPLES * ranks)
    of_small = every.square().sum(2).mean(0) if small is None else small
    of_large = (every.mean(0) if mean is None else mean).square().sum(1)
    noise = (of_small - of_large) / (1 / b - 1 / large)
    true = (large * of_large - b * of_small) / (large - b)
    return torch.stack([noise.mean(), true.mean(), noise.std() / steps**0.5])


def wrong_estimates(every: Tensor, rank: int) -> dict[str, Tensor]:
    """Return the results of the likely mistakes."""
    right, of_large = estimate(every), every.mean(0).square().sum(1).mean()
    lengths, ranks = every.square().sum(2), len(every)
    biased = SAMPLES * (lengths.mean() - of_large)
    return {
        "own": estimate(every, small=lengths[rank]),
        "sum": estimate(every, mean=every.sum(0)),
        "sum of the small": estimate(every, small=lengths.sum(0)),
        "ratio": right / torch.stack([right[1], *torch.ones(2, dtype=right.dtype)]),
        "biased": torch.stack([biased, of_large, right[2]]),
        "of one step": right * torch.tensor([1, 1, STEPS**0.5]),
        "by the steps": right / torch.tensor([1, 1, STEPS**0.5]),
        "exchanged": right[[1, 0, 2]],
        "of the mean": estimate(every.mean(1, keepdim=True).expand_as(every)),
        "of the mean alone": estimate(every, mean=every.mean((0, 1), keepdim=True)[0]),
        "root of the ranks": estimate(every, mean=every.sum(0) / ranks**0.5),
        "without samples": estimate(every, sizes=(1, ranks)),
        "ranks alone": estimate(every, sizes=(SAMPLES, ranks)),
        "divided": estimate(every, sizes=(SAMPLES, SAMPLES / ranks)),
        "in place": estimate(every, small=every.mean(0).square().sum(1)),
    }
