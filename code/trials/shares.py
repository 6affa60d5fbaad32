"""How much of each rank's numbers is in a result: by that a mistake shows what it was.

A sum over four ranks holds each of them once; a mean holds a quarter of each; a sum that lacks
rank 2 holds it not at all. The inputs are drawn at random, so the shares can be computed from the
result alone.
"""

from __future__ import annotations

import math

import torch

EQUAL = 1e-10
CLEAR = 1e-6
"""Shares are told only where they explain the result this well, in units of its own size."""


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Both in float64, compared in units of the largest number."""
    if one.shape != other.shape or not bool(torch.isfinite(one).all()):
        return False
    size = max(1.0, float(other.abs().max()) if other.numel() else 1.0)
    return float((one - other).abs().max()) <= EQUAL * size if other.numel() else True


def right_digits(found: torch.Tensor, wanted: torch.Tensor) -> int:
    """How many digits of the largest number are right: some 7 where it went through float32."""
    size = float(wanted.abs().max()) if wanted.numel() else 0.0
    missed = float((found.double() - wanted).abs().max()) if wanted.numel() else 0.0
    return round(-math.log10(missed / size)) if 0 < missed < size < math.inf else 0


def shares(result: torch.Tensor, inputs: list[torch.Tensor]) -> list[float] | None:
    """One number for each input, whose weighted sum is the result; None where there are none."""
    columns = torch.stack([one.reshape(-1) for one in inputs], dim=1)
    wanted = result.reshape(-1)
    if len(wanted) < len(inputs) or not bool(torch.isfinite(wanted).all()):
        return None
    found = torch.linalg.lstsq(columns, wanted[:, None]).solution[:, 0]
    missed = float((columns @ found - wanted).abs().max())
    if missed > CLEAR * max(1.0, float(wanted.abs().max())):
        return None
    return [round(float(value), 6) for value in found]
