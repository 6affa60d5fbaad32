"""Numbers in every form of a notebook: Python's, numpy's, fractions, tables of one element.

A learner's answer is often `calls.iloc[0] // 2`, which is numpy's; to refuse it would be to refuse
the right answer.
"""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real

from course_lib.words import _

LARGEST_EXACT = 2**53  # of the whole numbers that a float holds


def real(value: object) -> float | None:
    """The finite number that this is or holds; None if it is none. Booleans are none."""
    value = unboxed(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # beyond the range of floats; a NaN that signals
        return None
    return number if math.isfinite(number) else None


def whole(value: object) -> int | None:
    """The whole number that this is by type (3, not 3.0); None if it is none."""
    if type(value) is int:  # nearly always, and a search for a layout asks a hundred thousand times
        return value
    value = unboxed(value)
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def not_whole(value: object) -> str:
    """Say what is wrong with a number; 2.0 is what a learner gets from `32 / 16`."""
    value = unboxed(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_EXACT:
        return _("has a point; write {value} (a // b divides without one)", value=int(value))
    return _("is not a whole number")


def unboxed(value: object) -> object:
    """Take the value out of an array, Series or tensor of one element."""
    try:
        item = getattr(value, "item", None)
        mask = getattr(value, "mask", None)
        if mask is not None and not callable(mask) and mask.all():
            return None  # numpy's missing value, whose item is 0
        return item() if callable(item) else value
    except Exception:  # not one element; torch, tables and a learner's class raise what they like
        return value
