"""Dates and times of day in the formats of `--begin`, `sacct -S` and `-E`."""

from __future__ import annotations

import re
import sys
import time

from course_lib.box.commands.command_line import Failure

WORDS = {"midnight": "00:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}
UNITS_S = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
RELATIVE = re.compile(r"now(?:\s*([+-])\s*(\d+)\s*(second|minute|hour|day|week|)s?)?")
# 2030-01-20, 01/20, 01/20/30, 01.20.2030, 012030
DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)|(\d\d?)[/.](\d\d?)(?:[/.](\d+))?|(\d\d)(\d\d)(\d\d|\d{4})?"
)
CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?\s*(am|pm)?")


class TimeError(ValueError):
    """The text is not a time. A second argument is the position where Slurm stopped reading."""


def parse_or_fail(text: str, *, past: bool = False) -> float:
    """Return the same as `parse`, or end the command with Slurm's message for an invalid time."""
    try:
        return parse(text, past=past)
    except TimeError as error:
        place = error.args[1] if len(error.args) > 1 else 0
        print(f"Invalid time specification (pos={place}): {text}", file=sys.stderr)
        raise Failure() from None


def parse(text: str, *, past: bool = False) -> float:
    """Return seconds since 1970. A past time of day without date means tomorrow, unless `past`."""
    lower, now_s = text.strip().lower(), time.time()
    if found := RELATIVE.fullmatch(lower):
        sign, amount, unit = found.groups()
        return now_s + int(f"{sign or '+'}{amount or 0}") * UNITS_S[unit or ""]
    if lower.startswith("now"):
        raise TimeError(text, 3)
    if lower.isdigit() and len(lower) > 8:
        return float(lower)
    if not lower:
        raise TimeError(text)
    date, clock = "", ""
    for word in re.sub(r"(?<=\d)t(?=\d)", " ", lower).split():
        if word in WORDS or ":" in word:
            clock = WORDS.get(word, word) if not clock else "twice"
        else:
            date = word if not date else "twice"
    moment = _moment(date or "today", clock or "00:00", now_s)
    tomorrow = clock and not date and moment < now_s and not past
    return moment + 86400 if tomorrow else moment


def _moment(date: str, clock: str, now_s: float) -> float:
    found = CLOCK.fullmatch(clock)
    if not found:
        raise TimeError(clock)
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if found[4]:
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise TimeError(clock)
    return time.mktime((*_date(date, now_s), hour, minute, second, 0, 0, -1))


def _date(text: str, now_s: float) -> tuple[int, int, int]:
    day = time.localtime(now_s + (86400 if text == "tomorrow" else 0))
    if text in ("today", "tomorrow"):
        return day.tm_year, day.tm_mon, day.tm_mday
    found = DATE.fullmatch(text)
    if not found:
        raise TimeError(text)
    groups = [group for group in found.groups() if group]
    if found[1]:
        groups = [*groups[1:], groups[0]]
    month, number, year = (int(word) for word in [*groups, str(day.tm_year)][:3])
    if not 1 <= month <= 12:
        raise TimeError(text, 5)  # where Slurm stops reading 2020-13-01
    if not 1 <= number <= 31:
        raise TimeError(text, 8)
    return year + 2000 if year < 100 else year, month, number
