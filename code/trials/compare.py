"""Comparison of a result with the right one, by measurements that distinguish mistakes.

The most informative measurement is the share of each rank's numbers in a result. In a sum over four
ranks each share is one; in a mean, a quarter; in a sum without rank 2, its share is zero. As inputs
are random, the result alone determines these shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

EQUAL = 1e-10
# Shares are reported only if they explain the result this well, relative to its size.
CLEAR = 1e-6
# Numbers of correct digits of a result that went through float32.
BY_FLOAT32 = (6, 7, 8, 9)


def difference(
    found: Any, wanted: Tensor, summands: Sequence[Tensor] = (), pieces: int = 1,
    mistakes: Mapping[str, Tensor | None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the difference, or an empty text. `mistakes` are results of likely mistakes."""
    if not isinstance(found, Tensor):
        return {"mistake": "none" if found is None else "no tensor", "has": type(found).__name__}
    found = found.detach()
    if found.dtype != wanted.dtype:
        return {"mistake": "dtype", "has": str(found.dtype)}
    if close(found, wanted):
        return {}
    shapes = {"has": list(found.shape), "wanted": list(wanted.shape)}
    for mistake, value in (mistakes or {}).items():
        if value is not None and close(found, value):
            return {"mistake": mistake, **shapes}
    if found.shape != wanted.shape:
        return {"mistake": "shape", **shapes}
    return _measured(found, wanted, summands, pieces)


def _measured(
    found: Tensor, wanted: Tensor, summands: Sequence[Tensor], pieces: int
) -> dict[str, Any]:
    if not bool(torch.isfinite(found).all()):
        return {"mistake": "not finite"}
    digits = right_digits(found, wanted)
    if digits in BY_FLOAT32:
        return {"mistake": "rounded", "digits": digits}
    if summands and (table := shares_by_piece(found, summands, pieces)):
        return {"mistake": "shares", "shares": table, "right": shares_by_piece(wanted, summands, 1)}
    if wanted.numel() == 1:
        return {"mistake": "values", "has": float(found), "wanted": float(wanted)}
    wrong = (found.flatten() - wanted.flatten()).abs() > EQUAL * wanted.abs().max()
    last = int(wrong.sum())
    if last < min(len(wrong), max(2, len(summands))) and bool(wrong[-last:].all()):
        return {"mistake": "the last ones", "last": last, "numbers": len(wrong)}
    return {"mistake": "values", "first": int(wrong.nonzero()[:1].sum()), "numbers": len(wrong)}


def close(one: Tensor, other: Tensor) -> bool:
    """Compare relative to the largest number."""
    if one.shape != other.shape or not bool(torch.isfinite(one).all()):
        return False
    size = max(1.0, float(other.abs().max()) if other.numel() else 1.0)
    return float((one - other).abs().max()) <= EQUAL * size if other.numel() else True


def right_digits(found: Tensor, wanted: Tensor) -> int:
    size, missed = float(wanted.abs().max()), float((found - wanted).abs().max())
    return round(-math.log10(missed / size)) if 0 < missed < size < math.inf else 0


def shares_by_piece(
    result: Tensor, summands: Sequence[Tensor], pieces: int
) -> list[list[float]] | None:
    """Return the shares of the summands in each piece, or None if a piece is too short or not a
    weighted sum of them."""
    cut = [one.flatten().tensor_split(pieces) for one in (result, *summands)]
    table = []
    for wanted, *columns in zip(*cut, strict=True):
        matrix = torch.stack(columns, dim=1)
        if len(wanted) < len(columns):
            return None
        found = torch.linalg.lstsq(matrix, wanted[:, None]).solution[:, 0]
        missed = float((matrix @ found - wanted).abs().max())
        if missed > CLEAR * max(1.0, float(wanted.abs().max())):
            return None
        table.append([round(float(value), 6) + 0.0 for value in found])
    return table
