"""What a trial draws at random, the same on every rank."""

from __future__ import annotations

import torch

SAMPLES = 3
"""Of each rank."""


def draw(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def draw_samples(
    size: int, inputs: int, outputs: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of all ranks: those of rank r are rows r, r + size, …"""
    x, y = draw(seed, (SAMPLES * size, inputs), (SAMPLES * size, outputs))
    return x, y
