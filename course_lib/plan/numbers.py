"""Numbers of every type that a notebook uses: Python's, numpy's, fractions, one-element tables.

A learner's answer is often a numpy number, such as `calls.iloc[0]

2`, and must be accepted."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real

from course_lib.words import _

LARGEST_EXACT = 2**53  # up to this, a float holds every whole number exactly


def real(value: object) -> float | None:
    """Return the finite number that a value is or holds; None for a Boolean or anything else."""
    value = unboxed(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # beyond the range of floats; or a signalling NaN
        return None
    return number if math.isfinite(number) else None


def whole(value: object) -> int | None:
    """Return the whole number if the type is integral (3, not 3.0); otherwise None."""
    if type(value) is int:  # the usual case; a layout search asks 100,000 times
        return value
    value = unboxed(value)
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def not_whole(value: object) -> str:
    """Return what is wrong with a number; learners get 2.0 from `32 / 16`."""
    value = unboxed(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_EXACT:
        return _("has a decimal point; write {value} (or use a // b)", value=int(value))
    return _("is not a whole number")


def unboxed(value: object) -> object:
    """Return the value of a one-element array, Series or tensor."""
    try:
        item = getattr(value, "item", None)
        mask = getattr(value, "mask", None)
        if mask is not None and not callable(mask) and mask.all():
            return None  # numpy's missing value, whose item is 0
        return item() if callable(item) else value
    except Exception:  # not one element; torch, pandas and learners' classes raise any exception
        return value
