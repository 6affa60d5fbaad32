"""Times and durations as the commands of Slurm write them, each in its own way."""

from __future__ import annotations

import os
import time

from course_lib.box.settings import UNLIMITED

STANDARD = "%Y-%m-%dT%H:%M:%S"


def stamp(moment_s: float, absent: str = "N/A") -> str:
    """2026-11-20T09:31:00, or as SLURM_TIME_FORMAT has it."""
    if moment_s <= 0:
        return absent
    form = os.environ.get("SLURM_TIME_FORMAT", "standard")
    form = STANDARD if form in ("standard", "relative", "") else form
    return time.strftime(form, time.localtime(int(moment_s)))


def short(seconds: float) -> str:
    """0:03, 59:57, 1:00:00, 1-00:00:00 (squeue)."""
    total = int(seconds)
    if total < 0:
        return "INVALID"
    days, hours, minutes, secs = parts(total)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{secs:02}"
    if hours:
        return f"{hours}:{minutes:02}:{secs:02}"
    return f"{minutes}:{secs:02}"


def full(seconds: float) -> str:
    """00:00:03, 1-00:00:00 (scontrol, sacct)."""
    days, hours, minutes, secs = parts(max(int(seconds), 0))
    head = f"{days}-" if days else ""
    return f"{head}{hours:02}:{minutes:02}:{secs:02}"


def parts(total: int) -> tuple[int, int, int, int]:
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    return days, hours, minutes, secs


def limit_short(minutes: int) -> str:
    return "UNLIMITED" if minutes == UNLIMITED else short(minutes * 60)


def limit_full(minutes: int) -> str:
    return "UNLIMITED" if minutes == UNLIMITED else full(minutes * 60)


def now_line() -> str:
    return time.strftime("%a %b %d %H:%M:%S %Y")
