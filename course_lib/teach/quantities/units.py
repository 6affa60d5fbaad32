"""Units of the numbers that exercises ask for, and how people spell them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache

from course_lib.words import LANGUAGES, spoken
from course_lib.words.choice import folder

Scale = Mapping[str, float]
SCALES: tuple[Scale, ...] = (
    {
        "bits": 1 / 8, "bytes": 1, "kbit": 125, "kB": 1e3, "KiB": 2**10, "Mbit": 125e3, "MB": 1e6,
        "MiB": 2**20, "Gbit": 125e6, "GB": 1e9, "GiB": 2**30, "Tbit": 125e9, "TB": 1e12,
        "TiB": 2**40, "PB": 1e15, "PiB": 2**50,
    },
    {
        "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600, "days": 86400,
        "weeks": 7 * 86400, "months": 30.44 * 86400, "years": 365.25 * 86400,
        "decades": 3652.5 * 86400,
    },
    {"device-seconds": 1, "device-minutes": 60, "device-hours": 3600, "device-days": 86400},
    {
        "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15,
        "EFLOP/s": 1e18,
    },
    {
        "single ones": 1, "thousands": 1e3, "tens of thousands": 1e4, "millions": 1e6,
        "units of 2²⁰": 2**20, "hundreds of millions": 1e8, "billions": 1e9,
        "units of 2³⁰": 2**30, "trillions": 1e12,
    },
    {"%": 0.01, "parts of 1": 1},
    {"node-seconds": 1, "node-minutes": 60, "node-hours": 3600, "node-days": 86400},
)  # fmt: skip
TIMES, DEVICE_TIMES, FLOP_RATES, COUNTS = SCALES[1:5]
ON_PURPOSE = (
    "kbit", "Mbit", "Gbit", "Tbit", "TiB", "PB", "PiB", "ns", "decades", "EFLOP/s",
    "tens of thousands", "hundreds of millions",
)  # fmt: skip
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
    "Tbit": ("terabit",),
    "GB": ("gigabyte",),
    "GiB": ("gibibyte",),
    "TB": ("terabyte",),
    "TiB": ("tebibyte",),
    "PB": ("petabyte",),
    "PiB": ("pebibyte",),
    "ns": ("nanosecond", "nsec", "nanosec"),
    "µs": ("us", "μs", "usec", "microsecond", "microsec"),
    "ms": ("millisecond", "msec", "millisec"),
    "s": ("second", "sec"),
    "minutes": ("minute", "min"),
    "hours": ("hour", "h", "hr"),
    "days": ("day", "d"),
    "weeks": ("week",),
    "months": ("month",),
    "years": ("year", "yr"),
    "decades": ("decade",),
    "device-seconds": ("device-s", "gpu-s"),
    "device-hours": ("device-h", "gpu-h", "gpuh"),
    "FLOP/s": ("flop", "flops", "flops/s"),
    "MFLOP/s": ("mflop", "mflops", "mflops/s", "megaflop", "megaflops", "megaflop/s"),
    "GFLOP/s": ("gflop", "gflops", "gflops/s", "gf", "gigaflop", "gigaflops", "gigaflop/s"),
    "TFLOP/s": ("tflop", "tflops", "tflops/s", "tf", "teraflop", "teraflops", "teraflop/s", "tera"),
    "PFLOP/s": ("pflop", "pflops", "pflops/s", "pf", "petaflop", "petaflops", "petaflop/s"),
    "EFLOP/s": ("eflop", "eflops", "eflops/s", "exaflop", "exaflops", "exaflop/s"),
    "thousands": ("thousand", "k"),
    "millions": ("million", "mio"),
    "billions": ("billion", "bn"),
    "trillions": ("trillion",),
    "%": ("percent", "pct"),
}


FILE = "units.toml"
"""Beside the catalogs of each language: how its people write units."""
HELD = re.compile(r"(?P<what>gpu|device|slot|accelerator|card|node)[\s-]+(?P<time>[a-z]+)")
PART = re.compile(r"\s*/\s*|\s+per\s+")
WORD = re.compile(r"[^\W\d_]+")
THINGS = {
    "sample": "samples", "samples": "samples", "sequence": "samples", "sequences": "samples",
    "token": "tokens", "tokens": "tokens", "step": "steps", "steps": "steps",
    "iteration": "steps", "iterations": "steps",
}  # fmt: skip
"""What is counted in several exercises, and taken one for the other."""
A_RATE = "rate"
RATE = re.compile(r"[kmgt]i?bps")


@cache
def _names() -> dict[str, str]:
    """Of each spelling the unit."""
    found = {name.lower(): name for scale in SCALES for name in scale}
    for name, others in ALSO.items():
        for other in others:
            found |= {other: name, f"{other}s": name}
    files = [folder() / code / FILE for code in LANGUAGES]
    for one in (tomllib.loads(file.read_text("utf-8")) for file in files if file.is_file()):
        found |= {spelt: name for name, spellings in one.items() for spelt in spellings}
    return found


def others_of(unit: str) -> Iterator[tuple[str, float]]:
    """Units of the same kind that are taken by mistake, with the factor from this one to them."""
    same = of_the_same_kind(unit)
    return ((other, 1 / times) for other, times in same if other not in ON_PURPOSE)


def of_the_same_kind(unit: str) -> Iterator[tuple[str, float]]:
    """All units that may be converted to this one, with the factor that does it."""
    scale = _scale_of(unit)
    return ((other, size / scale[unit]) for other, size in scale.items() if other != unit)


def factor(written: str, wanted: str) -> float | None:
    """From the unit that somebody wrote to the one that is asked for; None where no factor leads.

    Words that are no unit ("63 micro-batches") say what is counted, and change nothing."""
    to = _scale_of(wanted)
    if to is not COUNTS and _are_other_things(written.lower(), wanted):
        return None
    if rate := _of_another_time(written, wanted):
        return 1 / TIMES[rate]
    many, words = _many(written.lower().replace("per cent", "percent").strip(), to)
    name = _name_of(words, to) or ("single ones" if many != 1 else None)
    if name is None or name == wanted:
        return many
    of = _scale_of(name)
    if of and (of is to or (of is TIMES and to is DEVICE_TIMES)):
        return many * of[name] / to[wanted]
    is_count = not wanted or (not to and name != "%")
    return many * of[name] if is_count and ("single ones" in of or "%" in of) else None


def names_things(written: str) -> bool:
    """Whether it is a word for what is counted ("parameters"), and no unit."""
    first = written.lower().split(" ", maxsplit=1)[0]
    return bool(first) and first not in _names() and first not in LETTERS


def _many(words: str, to: Scale) -> tuple[float, str]:
    """How many of them are written as one ("million bytes"), and what is left of the words."""
    first, _, rest = words.partition(" ")
    is_count = not to or to is COUNTS
    if first in LETTERS and not is_count:
        return 1.0, words
    name = LETTERS.get(first) or _names().get(first, "")
    return (COUNTS[name], rest.removeprefix("of ")) if name in COUNTS else (1.0, words)


def _name_of(words: str, to: Scale) -> str | None:
    """The unit, whatever it is said to be for: of "TFLOP/s per GPU" the TFLOP/s."""
    if words == "b" and "bytes" in to:
        return "bytes"
    parts = [(len(words), ""), *((one.start(), words[one.end() :]) for one in PART.finditer(words))]
    for end, of in sorted(parts, reverse=True):
        if name := _unit_in(words[:end]):
            is_whole = name in FLOP_RATES and _names().get(of) in (None, "s")
            return name if is_whole or not _is_time(of) else A_RATE
    is_rate = RATE.fullmatch(words) or any(_is_time(of) for _, of in parts)
    return A_RATE if is_rate else _unit_in(words.split(" ", maxsplit=1)[0])


def _are_other_things(words: str, wanted: str) -> bool:
    """Tokens where samples, or minutes, are asked for."""
    given = WORD.findall(words)
    if given and _names().get(given[0]) in COUNTS:
        given = [word for word in given if word in THINGS]
    thing = THINGS.get(given[0]) if given else None
    return bool(wanted and thing) and thing not in map(THINGS.get, WORD.findall(wanted))


def _is_time(words: str) -> bool:
    return _names().get(words.removeprefix("a ").removeprefix("an ")) in TIMES


def _unit_in(words: str) -> str | None:
    held = HELD.fullmatch(words)
    time = _names().get(held["time"]) if held else None
    if held and time in TIMES:
        kind = "node" if held["what"] == "node" else "device"
        name = f"{kind}-{'seconds' if time == 's' else time}"
        return name if _scale_of(name) else A_RATE
    return _names().get(words)


def _of_another_time(written: str, wanted: str) -> str | None:
    """The time in "samples per minute", where they are asked for per second."""
    if not wanted.endswith(" per second"):
        return None
    found = re.search(r"(?:/| per )\s*(?:an? )?(\w+)$", written.lower())
    name = _names().get(found[1]) if found else None
    return name if name in TIMES else None


def seconds_of(written: str) -> float | None:
    """Of a unit of time."""
    return TIMES.get(_names().get(written.lower(), ""))


def _scale_of(unit: str) -> Scale:
    return next((scale for scale in SCALES if unit in scale), {})
