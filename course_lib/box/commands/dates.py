"""Dates and times of day in the formats of `--begin`, `sacct -S` and `-E`."""

from __future__ import annotations

import re
import sys
import time

from course_lib.box.commands.command_line import Failure, Unsupported

WORDS = {"midnight": "00:00", "noon": "12:00"}
UNITS_S = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
RELATIVE = re.compile(r"(?a)now(?:\s*([+-])\s*(\d+)\s*(second|minute|hour|day|week|)s?)?")
DATE = re.compile(r"(?a)(\d{4})-(\d\d)-(\d\d)")
CLOCK = re.compile(r"(?a)(\d{1,2}):(\d\d)(?::(\d\d))?")
# 01/20, 01.20.30, 012030, 3:00 pm, teatime
OTHER_FORMS = re.compile(r"\d[/.]\d|^\d{4,}$|:\d\d\s*[ap]m$|^(fika|teatime)$")


class TimeError(ValueError):
    """Error: the text is not a time. A second argument is where Slurm stopped reading."""


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
    if OTHER_FORMS.search(lower):
        raise Unsupported(f"the time {text}", "Write 2030-01-20T14:00, 14:00 or now+2hours.")
    if lower.startswith("now"):
        raise TimeError(text, 3)
    date, clock = "", ""
    for word in re.sub(r"(?<=\d)t(?=\d)", " ", lower).split():
        if word in WORDS or ":" in word:
            clock = WORDS.get(word, word) if not clock else "twice"
        else:
            date = word if not date else "twice"
    found = CLOCK.fullmatch(clock or "00:00")
    hour, minute, second = (int(part or 0) for part in found.groups()) if found else (24, 0, 0)
    if not lower or hour > 23 or minute > 59 or second > 59:
        raise TimeError(text)
    moment = time.mktime((*_date(date or "today", now_s), hour, minute, second, 0, 0, -1))
    tomorrow = clock and not date and moment < now_s and not past
    return moment + 86400 if tomorrow else moment


def _date(text: str, now_s: float) -> tuple[int, int, int]:
    day = time.localtime(now_s + (86400 if text == "tomorrow" else 0))
    if text in ("today", "tomorrow"):
        return day.tm_year, day.tm_mon, day.tm_mday
    found = DATE.fullmatch(text)
    if not found:
        raise TimeError(text)
    year, month, number = map(int, found.groups())
    if not 1 <= month <= 12:
        raise TimeError(text, 5)  # where Slurm stops reading 2020-13-01
    if not 1 <= number <= 31:
        raise TimeError(text, 8)
    return year, month, number
