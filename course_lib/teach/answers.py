"""What the gap of a notebook holds: a number, a text, or something else, told in words."""

from __future__ import annotations

import re
import reprlib
from numbers import Real
from typing import Any

from course_lib.plan.numbers import real

ROUNDING = 1e-9
"""Share by which arithmetic with floats misses a whole number: 7 * 0.9 / 0.1 is nearly 63."""


def number_in(answer: object) -> float | None:
    """The number that is meant; None if it is none."""
    if isinstance(answer, list | tuple) and len(answer) == 1:  # as `tolist()` leaves it
        return number_in(answer[0])
    found = real(answer)
    if found is None:
        return None
    whole = float(round(found))
    return whole if close(found, whole, ROUNDING) else found


def text_in(answer: object) -> str | None:
    """The one text that this is or holds, also as a list, an Index or a Series; else None."""
    import numpy as np

    try:
        found = np.ravel(answer).tolist()  # type: ignore[call-overload]
    except (TypeError, ValueError):  # rows of different lengths, a tensor on a GPU
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], str) else None


def plain(answer: object) -> object:
    """The number or text that this is or holds, in Python's own type; else the answer itself."""
    number = number_in(answer)
    if number is not None:
        return int(number) if number.is_integer() else number
    text = text_in(answer)
    return answer if text is None else text


def why_no_number(answer: object) -> str:
    """The sentence for an answer in which there is no number."""
    if isinstance(answer, str) and re.search(r"\d", answer):
        return (
            f"It is the text {answer!r} now. Give the number without quotation marks and without "
            "its unit."
        )
    if isinstance(answer, Real) and not isinstance(answer, bool):
        return (
            f"It is {in_short(answer)} now, which is not finite. Look for a missing value or a "
            "division by 0 in the cell above."
        )
    return what_it_is(answer, "one number is asked for")


def what_it_is(answer: object, wanted: str) -> str:
    """For values that are none of what is asked: their kind, and how many there are."""
    if missing := getattr(answer, "missing", ()):
        return f"Still to fill in: {', '.join(map(str, missing))}."
    size = getattr(answer, "size", len(answer) if isinstance(answer, list | tuple) else 1)
    if isinstance(size, int) and size != 1:
        return f"It is {type(answer).__name__} with {size} values now; {wanted}."
    return f"It is {in_short(answer)} now; {wanted}."


def in_short(answer: Any) -> str:
    try:
        return " ".join(reprlib.repr(answer).split())
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a very long {type(answer).__name__}"


def in_figures(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e12 else f"{number:g}"


def close(value: float, right: float, share: float) -> bool:
    """Whether a number worked out by hand is right, up to this share of it."""
    return abs(value - right) <= share * abs(right)
