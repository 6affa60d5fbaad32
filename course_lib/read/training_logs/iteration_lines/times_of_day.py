"""Times of day in the heads of lines: by them alone, lines of one printer differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Span = tuple[int, int]
Times = npt.NDArray[Any]
_TIME = re.compile(rb"[\d/.-]{0,11}[ T]?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
DATE = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


def written_times(text: bytes) -> tuple[tuple[Span, ...], Span]:
    """All times of day in a head, and the first that comes with a date."""
    date = DATE.search(text)
    return tuple(match.span() for match in _TIME.finditer(text)), date.span() if date else (0, 0)


def without_times(text: bytes, times: Sequence[Span]) -> bytes:
    for first, last in reversed(times):
        text = text[:first] + text[last:]
    return text


def as_times(stamps: Sequence[bytes] | npt.NDArray[np.bytes_]) -> Times:
    try:
        return np.array(stamps, "S26").astype("datetime64[us]")
    except ValueError:  # no such day or hour
        return np.array([_time(bytes(stamp)) for stamp in stamps], "datetime64[us]")


def _time(stamp: bytes) -> np.datetime64:
    try:
        return np.datetime64(stamp.decode("ascii", "replace")[:26], "us")
    except ValueError:
        return np.datetime64("NaT", "us")
