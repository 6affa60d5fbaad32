"""A number that is written as a text, with its unit or without: "about 2.5 GB", "2**32"."""

from __future__ import annotations

import math
import re

ABOUT = r"(?:(?:about|around|approximately|approx\.?|circa|ca\.?|roughly|nearly|≈|~|=)\s*)*"
FIGURES = (
    r"[-+−]?(?:\d{1,3}(?:[,_'\u202f\u00a0 ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)"
    r"(?:[eE][-+−]?\d+)?"
)
NUMBER = re.compile(
    rf"{ABOUT}(?P<figures>{FIGURES})(?:\s*(?:\*\*|\^)\s*(?P<power>-?\d{{1,4}}))?"
    r"(?:\s*[·×x*]\s*10\s*(?:\*\*|\^)\s*(?P<ten>[-−]?\d{1,3}))?"
    r"\s*(?P<unit>(?:[%×]|[^\W\d_])[^\d,;:!?=]*)?\.?",
    re.IGNORECASE,
)
DENIALS = re.compile(r"\b(?:or|and|not|no|never|to|but)\b")


class Written(float):
    """A number with the unit that was written behind it."""

    unit = ""


def written_in(text: object) -> Written | None:
    """The one number that a text is, with words for its unit at most; None if it is none."""
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    found = NUMBER.fullmatch(text.strip().strip("$`'\"").strip()) if isinstance(text, str) else None
    if found is None or DENIALS.search(found["unit"] or ""):
        return None
    try:
        value = float(_plain(found["figures"])) ** int(found["power"] or 1)
        value *= 10.0 ** int(_plain(found["ten"] or "0"))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    if not math.isfinite(value):
        return None
    made = Written(value)
    made.unit = (found["unit"] or "").strip().rstrip(".")
    return made


def _plain(figures: str) -> str:
    """Without what parts thousands; a comma that does not is a point."""
    figures = re.sub(r"[_'\u202f\u00a0 ]", "", figures.replace("−", "-"))
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:[eE].*)?", figures):
        return figures.replace(",", "")
    return figures.replace(",", ".")
