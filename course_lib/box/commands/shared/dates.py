"""Times of day and dates as `--begin`, `sacct -S` and `-E` take them."""

from __future__ import annotations

import time

WORDS = {"midnight": (0, 0, 0), "noon": (12, 0, 0), "fika": (15, 0, 0), "teatime": (16, 0, 0)}
UNITS_S = {
    "": 1,
    "second": 1,
    "seconds": 1,
    "minute": 60,
    "minutes": 60,
    "hour": 3600,
    "hours": 3600,
    "day": 86400,
    "days": 86400,
    "week": 604800,
    "weeks": 604800,
}


class TimeError(ValueError):
    """Not a time."""


def parse(text: str, *, past: bool = False) -> float:  # noqa: PLR0911  one line per form
    """Seconds since 1970. A time of day alone that is over means tomorrow, unless `past`."""
    text = text.strip()
    lower = text.lower()
    now_s = time.time()
    if lower.startswith("now"):
        return _relative(lower[3:], now_s)
    if lower in ("today", "tomorrow"):
        return _at(_date(lower, now_s), (0, 0, 0))
    if text.isdigit() and len(text) > 8:
        return float(text)
    if "T" in text.upper() and lower not in WORDS and "-" in text:
        date, _, clock = text.upper().partition("T")
        return _at(_date(date, now_s), _clock(clock))
    words = lower.split()
    if len(words) == 2:
        first_is_date = _is_date(words[0])
        date, clock = words if first_is_date else (words[1], words[0])
        return _at(_date(date, now_s), _clock(clock))
    if _is_date(lower):
        return _at(_date(lower, now_s), (0, 0, 0))
    moment = _at(_date("today", now_s), _clock(lower))
    return moment + 86400 if moment < now_s and not past else moment


def _relative(rest: str, now_s: float) -> float:
    rest = rest.strip()
    if not rest:
        return now_s
    sign, amount = rest[0], rest[1:].strip()
    digits = amount.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = amount[len(digits) :].strip()
    if sign not in "+-" or not digits.isdigit() or unit not in UNITS_S:
        raise TimeError(rest, 3)
    return now_s + int(sign + digits) * UNITS_S[unit]


def _is_date(text: str) -> bool:
    return "/" in text or "-" in text or "." in text or (text.isdigit() and len(text) in (4, 6, 8))


def _date(text: str, now_s: float) -> tuple[int, int, int]:
    today = time.localtime(now_s + (86400 if text == "tomorrow" else 0))
    if text in ("today", "tomorrow"):
        return today.tm_year, today.tm_mon, today.tm_mday
    try:
        if "-" in text:
            pieces = text.split("-")
            if [len(piece) for piece in pieces] != [4, 2, 2]:
                raise TimeError(text)
            return int(pieces[0]), int(pieces[1]), int(pieces[2])
        parts = text.replace(".", "/").split("/")
        if len(parts) > 3:
            raise TimeError(text)
        if len(parts) == 1:
            parts = [text[0:2], text[2:4], *([text[4:]] if len(text) > 4 else [])]
        month, day = int(parts[0]), int(parts[1])
        year = int(parts[2]) if len(parts) == 3 else today.tm_year
    except (ValueError, IndexError):
        raise TimeError(text) from None
    return year + 2000 if year < 100 else year, month, day


def _clock(text: str) -> tuple[int, int, int]:
    if text in WORDS:
        return WORDS[text]
    lower = text.lower()
    half = lower[-2:] if lower[-2:] in ("am", "pm") else ""
    parts = lower.removesuffix(half).split(":") if half else lower.split(":")
    if len(parts) not in (2, 3) or not all(part.strip().isdigit() for part in parts):
        raise TimeError(text)
    hour, minute, second = ([int(part) for part in parts] + [0])[:3]
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise TimeError(text)
    return hour, minute, second


def _at(date: tuple[int, int, int], clock: tuple[int, int, int]) -> float:
    _, month, day = date
    if not 1 <= month <= 12:
        raise TimeError(str(date), 5)  # where in 2020-13-01 Slurm stopped reading
    if not 1 <= day <= 31:
        raise TimeError(str(date), 8)
    return time.mktime((*date, *clock, 0, 0, -1))
