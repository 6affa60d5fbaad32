"""What the gap of a notebook holds: a number, a text, or something else, told in words."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from itertools import islice
from numbers import Real
from typing import Any

from course_lib.plan.numbers import real
from course_lib.teach.quantities.written import duration_in, written_in

ROUNDING = 1e-9
"""Share by which arithmetic with floats misses a whole number: 7 * 0.9 / 0.1 is nearly 63."""


OF_SEVERAL = re.compile(r"\d[^\d]*\b(?:or|and|to)\s+\d")
DEEPEST = 4
"""A list in a list in a table is looked into; one that holds itself is not for ever."""


def number_in(answer: object) -> float | None:
    """The number that is meant; None if it is none."""
    found = real(only_one(answer) if isinstance(answer, list | tuple) else answer)
    if found is None:
        return None
    whole = float(round(found))
    return whole if close(found, whole, ROUNDING) else found


def number_written(answer: object) -> float | None:
    """As above, and also where a set, a table or a generator holds it, or a text with its unit, or
    a span of time."""
    for found in (answer, only_one(answer)):
        span = duration_in(found)
        number = number_in(found) if span is None else span
        if number is not None:
            return number
    return written_in(found)


def text_in(answer: object) -> str | None:
    """The one text that this is or holds, also as a list, an Index or a Series; else None."""
    found = only_one(answer)
    return str(found) if isinstance(found, str) else None


def only_one(answer: Any) -> Any:
    """What the single place of a list, a set, a table or a generator holds; else the same."""
    for _ in range(DEEPEST):
        if isinstance(answer, str | bytes):
            break
        try:
            inside = answer.values() if isinstance(answer, Mapping) else answer
            inside = inside.to_numpy() if hasattr(inside, "to_numpy") else inside
            found = list(islice(inside, 2))
        except Exception:  # not iterable, or it refuses to be
            break
        if len(found) != 1:
            break
        [answer] = found
    return answer


def plain(answer: object) -> object:
    """The number or text that this is or holds, in Python's own type; else the answer itself."""
    number = number_in(answer)
    if number is not None:
        return int(number) if number.is_integer() else number
    text = text_in(answer)
    return answer if text is None else text


def why_no_number(answer: object) -> str:
    """The sentence for an answer in which there is no number."""
    if isinstance(answer, str) and OF_SEVERAL.search(answer):
        return f"It is the text {in_short(answer)} now, with two numbers. Decide for one of them."
    if isinstance(answer, str) and re.search(r"\d", answer):
        return (
            f"It is the text {in_short(answer)} now. Give the number without quotation marks and "
            "without its unit."
        )
    if isinstance(answer, Real) and not isinstance(answer, bool):
        return (
            f"It is {in_short(answer)} now, which is not finite. Look for a missing value or a "
            "division by 0 in the cell above."
        )
    return what_it_is(answer, "one number is asked for")


def what_it_is(answer: object, wanted: str) -> str:
    """For values that are none of what is asked: their kind, and how many there are."""
    if missing := _of(answer, "missing", ()):
        return f"Still to fill in: {', '.join(map(str, missing))}."
    size = _of(answer, "size", len(answer) if isinstance(answer, list | tuple) else 1)
    if isinstance(size, int) and size != 1:
        return f"It is {type(answer).__name__} with {size} values now; {wanted}."
    return f"It is {in_short(answer)} now; {wanted}."


def _of(answer: object, name: str, otherwise: Any) -> Any:
    try:
        return getattr(answer, name, otherwise)
    except Exception:  # of a learner's own class
        return otherwise


def in_short(answer: Any) -> str:
    try:
        return " ".join(reprlib.repr(answer).split())
    except Exception:  # no whole number of more than 4300 digits, a repr of the learner's own
        return f"a very long {type(answer).__name__}"


def in_figures(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e12 else f"{number:g}"


def close(value: float, right: float, share: float) -> bool:
    """Whether a number worked out by hand is right, up to this share of it."""
    return abs(value - right) <= share * abs(right)
