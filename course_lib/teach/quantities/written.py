"""A number that is written as a text, with its unit or without: "about 2.5 GB", "2**32"."""

from __future__ import annotations

import datetime
import math
import re

from course_lib.teach.quantities.spelt import in_digits
from course_lib.teach.quantities.units import seconds_of

LONGEST = 2000
"""Characters. What is longer is no answer."""
FIGURES = (
    r"[-+−]?(?:\d{1,3}(?:[,_'\u202f\u00a0 ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)"
    r"(?:[eE][-+−]?\d+)?"
)
POWER = rf"{FIGURES}(?:\s*(?:\*\*|\^)\s*[-−]?\d{{1,4}})?"
LEAD = (
    r"(?:[^\W\d]\w*\s*={1,2}\s*)?"  # name = …
    r"(?:[^\W\d_][^\W\d_'’-]*(?:\.?[\s_-]+|\s*[:=≈~≥]\s*|\s*>=\s*)|[≈~=≥]\s*|>=\s*){0,7}[×x]?"
)
NUMBER = re.compile(
    rf"(?P<lead>{LEAD})(?P<value>{POWER}(?:\s*[·×x*/]\s*{POWER})*)"
    r"\s*(?P<unit>(?:[%×]|-?[^\W\d_])[^\d,;:!?=]*)?\.?",
    re.IGNORECASE,
)
REPR = re.compile(
    rf"[\w.]+\(\s*[\[(]*['\"]?(?P<inside>{FIGURES})['\"]?[\])]*"
    r"(?:,\s*(?:dtype|device|grad_fn|requires_grad)\s*=[^()=]*)*\)"
)
NOT_THE_OTHER = re.compile(rf"[,;]?\s+(?:and\s+)?(?:not|instead of|rather than)\s+{FIGURES}\W*$")
ASIDE = re.compile(r"\s*\(([^()]*)\)")
DENIALS = re.compile(
    r"\b(?:or|and|not|no|never|to|but|nor|neither|either|more|less|fewer|greater|larger|smaller|"
    r"above|below|over|under|beyond|minus|negative|without|between|except|half|twice|times \w+ by)"
    r"\b|n['’]t\b",
    re.IGNORECASE,
)
DURATION = re.compile(rf"({FIGURES})\s*([^\W\d_]+)\.?(?:\s*,?\s*(?:and\s+)?|$)")


class Written(float):
    """A number with the unit that was written behind it."""

    unit = ""


def written_in(text: object) -> Written | None:
    """The one number that a text is, with words around it at most; None if it is none."""
    if isinstance(text, bytes):
        text = text[: LONGEST + 1].decode("ascii", "replace")
    if not isinstance(text, str) or len(text.strip()) > LONGEST:
        return None
    text = in_digits(text.strip().strip("$`'\"").strip())
    text = NOT_THE_OTHER.sub("", REPR.sub(r"\g<inside>", text))
    text = ASIDE.sub(lambda aside: _beside(aside[1]), text).strip()
    found = NUMBER.fullmatch(text)
    if found is None:
        return _duration(text)
    if DENIALS.search(found["lead"]) or DENIALS.search(found["unit"] or ""):
        return None
    try:
        value = _worked_out(found["value"])
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    unit = (found["unit"] or "").strip().rstrip(".")
    return _made(value, re.sub(r"^of an? ", "", unit))


def duration_in(answer: object) -> Written | None:
    """The seconds of a time span of Python, numpy or pandas."""
    try:
        kind = getattr(getattr(answer, "dtype", None), "kind", "")
        item = answer.astype("timedelta64[us]").item() if kind == "m" else answer  # type: ignore[attr-defined]
        if not isinstance(item, datetime.timedelta):
            return None
        return _made(item.total_seconds(), "s")
    except Exception:  # an array of other things, a class of the learner's own, NaT
        return None


def _beside(aside: str) -> str:
    """What stands in brackets: a unit or a remark, unless it is a second number."""
    if DENIALS.search(aside):
        return f" ({aside})"
    return "" if re.search(r"\d", aside) else f" {aside}"


def _duration(text: str) -> Written | None:
    """8 min 49 s."""
    pieces = list(DURATION.finditer(text))
    sizes = [seconds_of(piece[2]) for piece in pieces]
    if len(pieces) < 2 or None in sizes or "".join(piece[0] for piece in pieces) != text:
        return None
    if sizes != sorted(sizes, key=lambda size: -(size or 0)):
        return None
    values = [float(_plain(piece[1])) for piece in pieces]
    return _made(sum(v * (size or 0) for v, size in zip(values, sizes, strict=True)), "s")


def _worked_out(value: str) -> float:
    """Products, quotients and powers, from left to right: 3/2, 1.5·10^9, 8388608 * 2**9."""
    signs = iter(["*", *re.findall(rf"{POWER}\s*([·×x*/])(?!\*)\s*(?={POWER})", value)])
    result = 1.0
    for term in re.finditer(rf"({FIGURES})(?:\s*(?:\*\*|\^)\s*([-−]?\d{{1,4}}))?", value):
        power = int(_plain(term[2])) if term[2] else 1
        number = float(_plain(term[1])) ** power
        result = result / number if next(signs) == "/" else result * number
    return result


def _made(value: float, unit: str) -> Written | None:
    if not math.isfinite(value):
        return None
    made = Written(value)
    made.unit = unit
    return made


def _plain(figures: str) -> str:
    """Without what parts thousands; a comma that does not is a point."""
    figures = re.sub(r"[_'\u202f\u00a0 ]", "", figures.replace("−", "-"))
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:[eE].*)?", figures):
        return figures.replace(",", "")
    return figures.replace(",", ".")
