"""Units of the numbers that exercises ask for, and how people spell them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from course_lib.words import spoken

Scale = Mapping[str, float]
SCALES: tuple[Scale, ...] = (
    {
        "bits": 1 / 8, "bytes": 1, "kbit": 125, "kB": 1e3, "KiB": 2**10, "Mbit": 125e3, "MB": 1e6,
        "MiB": 2**20, "Gbit": 125e6, "GB": 1e9, "GiB": 2**30, "TB": 1e12,
    },
    {
        "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600, "days": 86400,
        "weeks": 7 * 86400, "months": 30.44 * 86400, "years": 365.25 * 86400,
    },
    {"device-seconds": 1, "device-minutes": 60, "device-hours": 3600, "device-days": 86400},
    {"FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    {
        "single ones": 1, "thousands": 1e3, "millions": 1e6, "units of 2²⁰": 2**20, "billions": 1e9,
        "units of 2³⁰": 2**30, "trillions": 1e12,
    },
    {"%": 0.01, "parts of 1": 1},
)  # fmt: skip
TIMES, DEVICE_TIMES = SCALES[1:3]
ON_PURPOSE = ("kbit", "Mbit", "Gbit")
"""Units that are written, and not slipped into: an 8 has likelier reasons."""
LETTERS = {"k": "thousands", "m": "millions", "g": "billions", "b": "billions", "t": "trillions"}
"""Behind a number of things that are only counted."""
UNITS_SHOWN = spoken(
    "bits", "bytes", "minutes", "hours", "days", "weeks", "months", "years", "device-seconds",
    "device-minutes", "device-hours", "device-days", "thousands", "millions", "billions",
    "trillions", "single ones", "parts of 1",
)  # fmt: skip
SPELT = {
    "kB": "kB (10³ bytes)", "KiB": "KiB (2¹⁰ bytes)", "MB": "MB (10⁶ bytes)",
    "MiB": "MiB (2²⁰ bytes)", "GB": "GB (10⁹ bytes)", "GiB": "GiB (2³⁰ bytes)",
}  # fmt: skip
ALSO = {
    "bits": ("bit",),
    "bytes": ("byte",),
    "kbit": ("kilobit",),
    "Mbit": ("megabit",),
    "Gbit": ("gigabit",),
    "kB": ("kilobyte",),
    "KiB": ("kibibyte",),
    "MB": ("megabyte",),
    "MiB": ("mebibyte",),
    "GB": ("gigabyte",),
    "GiB": ("gibibyte",),
    "TB": ("terabyte",),
    "µs": ("us", "microsecond"),
    "ms": ("millisecond", "msec"),
    "s": ("second", "sec"),
    "minutes": ("minute", "min"),
    "hours": ("hour", "h", "hr"),
    "days": ("day", "d"),
    "weeks": ("week",),
    "months": ("month",),
    "years": ("year",),
    "device-seconds": ("device-second", "gpu-second", "device-s"),
    "device-minutes": ("device-minute",),
    "device-hours": ("device-hour", "gpu-hour", "device-h", "gpu-h", "gpuh"),
    "device-days": ("device-day", "gpu-day"),
    "FLOP/s": ("flops", "flops/s"),
    "MFLOP/s": ("mflops", "mflops/s", "megaflops", "megaflop/s"),
    "GFLOP/s": ("gflops", "gflops/s", "gigaflops", "gigaflop/s"),
    "TFLOP/s": ("tflops", "tflops/s", "teraflops", "teraflop/s", "tera"),
    "PFLOP/s": ("pflops", "pflops/s", "petaflops", "petaflop/s"),
    "thousands": ("thousand", "k"),
    "millions": ("million", "mio"),
    "billions": ("billion", "bn"),
    "trillions": ("trillion",),
    "%": ("percent", "pct"),
}


def _spellings() -> dict[str, str]:
    found = {name.lower(): name for scale in SCALES for name in scale}
    for name, others in ALSO.items():
        for other in others:
            found |= {other: name, f"{other}s": name}
    return found


NAMES = _spellings()


def others_of(unit: str) -> Iterator[tuple[str, float]]:
    """Units of the same kind that are taken by mistake, with the factor from this one to them."""
    scale = _scale_of(unit)
    likely = {name: size for name, size in scale.items() if name not in (unit, *ON_PURPOSE)}
    return ((other, scale[unit] / size) for other, size in likely.items())


def factor(written: str, wanted: str) -> float | None:
    """From the unit that somebody wrote to the one that is asked for; None where no factor leads.

    Words that are no unit ("63 micro-batches") say what is counted, and change nothing."""
    to = _scale_of(wanted)
    rate = _of_another_time(written, wanted)
    name = rate or _name_of(written, to)
    if name is None or name == wanted:
        return 1.0
    of = _scale_of(name)
    if rate:
        return 1 / of[name]
    if of is to or (of is TIMES and to is DEVICE_TIMES):
        return of[name] / to[wanted]
    is_count = not wanted or (not to and name != "%")
    return of[name] if is_count and ("single ones" in of or "%" in of) else None


def _name_of(written: str, to: Scale) -> str | None:
    words = written.lower().replace(" per second", "/s").replace("per cent", "percent")
    first = words.split(" ")[0] if words else ""
    if first in LETTERS and ("single ones" in to or not to):
        return LETTERS[first]
    if first == "b" and "bytes" in to:
        return "bytes"
    return NAMES.get(words) or NAMES.get(first)


def _of_another_time(written: str, wanted: str) -> str | None:
    """The time in "samples per minute", where they are asked for per second."""
    if not wanted.endswith(" per second"):
        return None
    found = re.search(r"(?:/| per )\s*(?:an? )?(\w+)$", written.lower())
    name = NAMES.get(found[1]) if found else None
    return name if name in TIMES else None


def seconds_of(written: str) -> float | None:
    """Of a unit of time."""
    return TIMES.get(NAMES.get(written.lower(), ""))


def _scale_of(unit: str) -> Scale:
    return next((scale for scale in SCALES if unit in scale), {})
