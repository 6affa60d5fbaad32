"""A number that is written as a text, with its unit or without: "about 2.5 GB", "2**32"."""

from __future__ import annotations

import datetime
import math
import re

from course_lib.teach.quantities.spelt import in_digits
from course_lib.teach.quantities.units import seconds_of
from course_lib.teach.quantities.worked import sum_in

LONGEST = 2000
"""Characters. What is longer is no answer."""
FIGURES = (
    r"[-+−]?(?:\d{1,3}(?:[,_'\u202f\u00a0 ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)"
    r"(?:[eE][-+−]?\d+)?"
)
POWER = rf"{FIGURES}(?:\s*(?:\*\*|\^)\s*[-−]?\d{{1,4}})?"
LEAD = (
    r"(?:[^\W\d]\w*\s*={1,2}\s*)?"  # name = …
    r"(?:[^\W\d_][^\W\d_'’-]*(?:\.?[\s_-]+|\s*[:=≈~≥]\s*|\s*>=\s*)|[≈~=≥]\s*|>=\s*){0,7}(?:×\s*|x)?"
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
OR_MORE = re.compile(
    r"(?<=\d)(?:\s+(?:or|and)\s+(?:more|larger|greater|higher|above|up)\b|\+$)"
    rf"|(?<=\d)\s*(?:±|\+/-)\s*{FIGURES}"
)
"""The least of them is meant, as with ≥; or the middle one."""
TO_THE_POWER = re.compile(r"(?<=\d)\s+to\s+the\s+power\s+(?:of\s+)?(?=\d)")
DOTTED = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3}){2,}(?![\d.,])")
"""4.294.967.296."""
OF_BOTH = re.compile(r"(?<=\w)\s+and\s+(?:per\s+)?(?=(?:device|step|rank|iteration|sample)\b)")
"""Per step and device."""
EQUATION = re.compile(r"(?P<sum>[^<>!]*\d[^<>!]*)[=≈]\s*(?P<value>[^=≈]+)")
RATIO = re.compile(rf"({FIGURES})\s*:\s*([1-9])")
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
    text = _in_figures(text.strip().strip("$`'\"").strip())
    value = sum_in(text)
    if value is not None:
        return _made(value, "")
    text = NOT_THE_OTHER.sub("", REPR.sub(r"\g<inside>", text))
    text = ASIDE.sub(lambda aside: _beside(aside[1]), text).strip()
    found = NUMBER.fullmatch(text)
    if found is None:
        return _duration(text) or _result(text)
    unit = OF_BOTH.sub(" ", found["unit"] or "")
    if DENIALS.search(found["lead"]) or DENIALS.search(unit):
        return None
    try:
        value = _worked_out(found["value"])
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    unit = (found["unit"] or "").strip().rstrip(".")
    return _made(value, re.sub(r"^of an? ", "", unit))


def _in_figures(text: str) -> str:
    """Words and other people's signs as those that are read here."""
    text = TO_THE_POWER.sub("^", OR_MORE.sub("", in_digits(text)))
    return DOTTED.sub(lambda dotted: dotted[0].replace(".", ""), text)


def _result(text: str) -> Written | None:
    """What a sum comes to (16 × 0.125 MiB = 2 MiB), or a ratio says (3 : 2)."""
    if ratio := RATIO.fullmatch(text):
        return _made(float(_plain(ratio[1])) / int(ratio[2]), "")
    found = EQUATION.fullmatch(text)
    return written_in(found["value"]) if found and not DENIALS.search(found["sum"]) else None


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
    names = ["min" if piece[2] == "m" else piece[2] for piece in pieces]
    sizes = list(map(seconds_of, names))
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
