"""Read the answer in a notebook's gap: a number, with or without its unit, or a text.

`number_written("2.5 GB")` is 2.5 with the unit "GB". An `Amount` holds the right number and the
few slips that its exercise lists, each with the number that it leads to.
"""

from __future__ import annotations

import math
import re
import reprlib
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np

from course_lib.lab.job.unfinished import Unfinished
from course_lib.plan.numbers import real, unboxed
from course_lib.words import N_, _
from course_lib.words.language import LOCALE

# Relative float error around a whole number: 7 * 0.9 / 0.1 is not exactly 63.
ROUNDING = 1e-9
# Relative tolerance for a whole number, which float32 may have rounded.
EXACT = 1e-7
# Relative tolerance for a number that was computed by hand and rounded.
ROUNDED = 0.02
# Relative tolerance within which a slip is named.
NAMED = 0.005
# Exact numbers of this size and above may have fewer digits: 4.29e9 for 2**32.
LONG, SHORTENED = 1e5, 2e-3
# At most one leading word ("about", "x ="), then the digits, then the words of a unit.
WRITTEN = re.compile(
    r"(?:about|approximately|ca\.?|\w+ =|[≈~=≥×])?\s*"
    r"(?P<value>[-+−]?(?:\d{1,3}(?:[,_' ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d*)?|[.,]\d+)"
    r"(?:[eE][-+]?\d+)?)\s*(?P<unit>(?:[%×]|-?[^\W\d_])[^\d,;:!?=]*)?\.?"
)
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?:[eE].*)?")
NOT_ONE = re.compile(r"\b(?:or|and|to|less|more)\b")

Scale = dict[str, float]
SIZES: Scale = {
    "bits": 1 / 8, "bytes": 1, "kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9,
    "GiB": 2**30, "TB": 1e12, "Gbit": 125e6,
}  # fmt: skip
TIMES: Scale = {
    "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600, "days": 86400,
    "weeks": 7 * 86400, "months": 30.44 * 86400, "years": 365.25 * 86400,
}  # fmt: skip
FLOP_RATES: Scale = {
    "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15,
}  # fmt: skip
COUNTS: Scale = {
    "thousands": 1e3, "tens of thousands": 1e4, "millions": 1e6, "hundreds of millions": 1e8,
    "billions": 1e9, "trillions": 1e12,
}  # fmt: skip
SHARES: Scale = {"%": 0.01, N_("parts of 1"): 1}
SCALES = (SIZES, TIMES, FLOP_RATES, COUNTS, SHARES)
# Other names of the units. The plural of each, with an s, is accepted too.
ALSO = {
    "bytes": "byte", "kB": "kilobyte", "KiB": "kibibyte", "MB": "megabyte", "MiB": "mebibyte",
    "GB": "gigabyte", "GiB": "gibibyte", "TB": "terabyte", "bits": "bit", "Gbit": "gigabit",
    "µs": "us microsecond", "ms": "millisecond", "s": "second sec", "minutes": "minute min",
    "hours": "hour h", "days": "day", "weeks": "week", "months": "month", "years": "year",
    "TFLOP/s": "tflop tflops/s", "thousands": "thousand k", "millions": "million m",
    "billions": "billion b", "trillions": "trillion t", "%": "percent",
}  # fmt: skip
FILE = "units.toml"
# Device-seconds are seconds times devices.
DEVICE = "device-"
# A wrong number, and what leads to it.
Slip = tuple[float, str]


class Number(float):
    """A number with the unit that followed it."""

    unit = ""


def number_in(answer: object) -> float | None:
    """Read a number of any real type; None if the answer is not a number.

    Arrays and tensors of one element count as numbers, because arithmetic on tables returns them.
    A list with one number does not count.
    """
    found = real(answer)
    if found is None:
        return None
    whole = float(round(found))
    return whole if close(found, whole, ROUNDING) else found


def number_written(answer: object) -> float | None:
    """Read a number of any real type, or a text with one number and perhaps a unit."""
    number = number_in(answer)
    return _in_text(unboxed(answer)) if number is None else number


def _in_text(text: object) -> Number | None:
    found = WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or NOT_ONE.search(found["unit"] or ""):
        return None
    figures = re.sub(r"[_' ]", "", found["value"].replace("−", "-"))
    # A comma is a decimal point unless it separates thousands.
    number = Number(figures.replace(",", "" if THOUSANDS.fullmatch(figures) else "."))
    number.unit = (found["unit"] or "").strip().rstrip(".")
    return number if math.isfinite(number) else None


@cache
def _units_by_name() -> dict[str, str]:
    """Map each spelling to its unit. Include the spellings from each language's `units.toml`."""
    found = {name.lower(): name for scale in SCALES for name in scale}
    for name, others in ALSO.items():
        for other in others.split():
            found |= {other: name, f"{other}s": name} if len(other) > 1 else {other: name}
    for file in LOCALE.glob(f"*/{FILE}"):
        for name, words in tomllib.loads(file.read_text("utf-8")).items():
            found |= dict.fromkeys(words, name.removeprefix(DEVICE))
    return found


def unit_factor(written: str, wanted: str) -> float | None:
    """Return the factor from the written unit to the wanted unit; None if they do not convert.

    Words that are not a unit ("63 micro-batches") say what is counted. Their factor is 1.
    """
    words, names = written.lower().strip().removeprefix("gpu-"), _units_by_name()
    words, wanted = words.removeprefix(DEVICE), names.get(wanted.removeprefix(DEVICE), wanted)
    scale = next((scale for scale in SCALES if wanted in scale), COUNTS)
    if scale is SIZES and words == "b":
        return 1 / scale[wanted]
    name = names.get(words) or names.get(words.partition(" ")[0], "")
    if not name:
        return 1.0
    if name == "%" and not wanted:
        return SHARES["%"]
    return scale[name] / scale.get(wanted, 1) if name in scale else None


def in_other_unit(right: float, unit: str, other: str) -> Slip:
    """Return the slip of an answer that is right in a different unit."""
    said = _(
        "Your number is right in {other}. The exercise asks for {wanted}.",
        other=_(other),
        wanted=_(unit),
    )
    return right * (unit_factor(unit, other) or 1), said


def plain(answer: object) -> object:
    """Return the answer's number or text as a plain Python value; otherwise the answer itself."""
    number = number_in(answer)
    if number is not None:
        return int(number) if number.is_integer() else number
    return str(answer) if isinstance(answer, str) else answer


def why_no_number(answer: object) -> str:
    """Explain why the answer is not a number."""
    wanted = _("write one finite number, without quotation marks and without its unit")
    return what_it_is(answer, wanted)


def what_it_is(answer: object, wanted: str) -> str:
    """Describe a wrong answer by its value, or by its gaps."""
    if isinstance(answer, Unfinished):
        return _("Still to fill in: {names}.", names=", ".join(answer.missing))
    return _("It is {value} now; {wanted}.", value=in_short(answer), wanted=wanted)


def in_short(answer: Any) -> str:
    try:
        return " ".join(reprlib.repr(answer).split())
    except Exception:  # an int of more than 4300 digits, or a learner's own `__repr__` that fails
        return _("a very long {name}", name=type(answer).__name__)


def in_figures(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) and abs(number) < 1e12 else f"{number:g}"


def close(value: float, right: float, share: float) -> bool:
    """Return whether a number is within this relative tolerance of the right one."""
    return abs(value - right) <= share * abs(right)


def last_digit(given: float) -> float:
    """Return the value of a 1 in the number's last digit: 0.1 for 37.6, and 100 for 400."""
    exponent = Decimal(repr(float(given))).normalize().as_tuple().exponent
    return float(10.0**exponent) if isinstance(exponent, int) else 0.0


def is_rounded(given: float, right: float) -> bool:
    """Return whether this is the right number with fewer digits, rounded or cut off."""
    return abs(given - right) <= 0.6 * last_digit(given)


@dataclass(frozen=True, kw_only=True)
class Amount:
    """The right number of an exercise, and at most four known slips."""

    right: float
    unit: str = ""
    share: float = ROUNDED
    # Tolerance for any number. Beyond it, the number has to be rounded, such as 38 for 37.6.
    fine: float = 0.0075
    # Results of other correct methods. Their tolerance is at most ROUNDED.
    also: tuple[float, ...] = ()
    slips: tuple[Slip, ...] = ()

    def is_met_by(self, given: float) -> bool:
        others = any(self._meets(given, right, min(self.share, ROUNDED)) for right in self.also)
        return others or self._meets(given, self.right, self.share)

    def _meets(self, given: float, right: float, share: float) -> bool:
        if share <= EXACT:
            return given in (right, float(np.float32(right))) or (
                abs(right) >= LONG and close(given, right, SHORTENED) and is_rounded(given, right)
            )
        if share != ROUNDED or close(given, right, self.fine):
            return close(given, right, share)
        return close(given, right, share) and is_rounded(given, right)

    def in_unit(self, given: float) -> float | None:
        """Convert a number to the wanted unit; None if its unit measures something else."""
        written = given.unit if isinstance(given, Number) else ""
        times = unit_factor(written, self.unit) if written else 1.0
        if times is None:
            return None
        if written and times == 1 and given >= COUNTS.get(self.unit, math.inf):
            return float(given) / COUNTS[self.unit]  # 124,400,000 parameters are a plain count
        return float(given) * times

    def slip(self, given: float) -> str:
        """Return the text of the only listed slip that leads to this number; "" if there is none.

        No slip is named if the number may also come from another slip, or by rounding from the
        right number.
        """
        share = NAMED if self.share <= EXACT else min(NAMED, self.fine)
        named = {text for value, text in self.slips if close(given, value, share)}
        near = max(2 * share * abs(given), 0.51 * min(1.0, last_digit(given)))
        possible = {text for value, text in self.slips if abs(given - value) <= near}
        is_right_rounded = any(abs(given - right) <= near for right in (self.right, *self.also))
        return named.pop() if len(named) == len(possible) == 1 and not is_right_rounded else ""
