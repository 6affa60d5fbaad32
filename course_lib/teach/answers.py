"""Read the answer in a notebook's gap: a number, with or without its unit, or a text.

`number_written("2.5 GB")` is 2.5 with the unit "GB". An `Amount` holds the right number and the
hint for each wrong number that the exercise invites. A check lists its mistakes there as data.
"""

from __future__ import annotations

import math
import re
import reprlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from course_lib.plan.numbers import real, unboxed
from course_lib.words import LANGUAGES, N_, _
from course_lib.words.language import locale_folder

# Relative float error around a whole number: 7 * 0.9 / 0.1 is not exactly 63.
ROUNDING = 1e-9
# Relative tolerance for a whole number, which float32 may have rounded.
EXACT = 1e-7
# Relative tolerance for a number that was computed by hand and rounded.
ROUNDED = 0.02
# Relative difference below which two values count as equal.
SAME = 1e-3
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
SEVERAL = (list, tuple, set, Mapping)
# Depth to which nested containers are opened, because a list may contain itself.
DEEPEST = 4

Scale = dict[str, float]
SIZES: Scale = {
    "bits": 1 / 8, "bytes": 1, "kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9,
    "GiB": 2**30, "TB": 1e12, "TiB": 2**40, "Mbit": 125e3, "Gbit": 125e6,
}  # fmt: skip
TIMES: Scale = {
    "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600, "days": 86400,
    "weeks": 7 * 86400, "months": 30.44 * 86400, "years": 365.25 * 86400,
}  # fmt: skip
DEVICE_TIMES: Scale = {
    f"device-{'seconds' if unit == 's' else unit}": TIMES[unit]
    for unit in ("s", "minutes", "hours", "days")
}
FLOP_RATES: Scale = {
    "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15,
}  # fmt: skip
COUNTS: Scale = {
    N_("single ones"): 1, "thousands": 1e3, "millions": 1e6, "billions": 1e9, "trillions": 1e12,
}  # fmt: skip
SHARES: Scale = {"%": 0.01, N_("parts of 1"): 1}
SCALES = (SIZES, TIMES, DEVICE_TIMES, FLOP_RATES, COUNTS, SHARES)
# Units that nobody writes by mistake. A wrong factor of 8 usually has a different cause.
NO_MISTAKE = ("Mbit", "Gbit", "TiB")
SHOWN = {
    "kB": N_("kB (10³ bytes)"), "KiB": N_("KiB (2¹⁰ bytes)"), "MB": N_("MB (10⁶ bytes)"),
    "MiB": N_("MiB (2²⁰ bytes)"), "GB": N_("GB (10⁹ bytes)"), "GiB": N_("GiB (2³⁰ bytes)"),
}  # fmt: skip
# The plural of each, with an s, is accepted too.
ALSO = {
    "bytes": "byte", "kB": "kilobyte", "KiB": "kibibyte", "MB": "megabyte", "MiB": "mebibyte",
    "GB": "gigabyte", "GiB": "gibibyte", "TB": "terabyte", "bits": "bit", "Mbit": "megabit",
    "Gbit": "gigabit", "µs": "us μs microsecond", "ms": "millisecond msec", "s": "second sec",
    "minutes": "minute min", "hours": "hour h hr", "days": "day d", "weeks": "week",
    "months": "month", "years": "year yr", "FLOP/s": "flop flops/s", "MFLOP/s": "mflop mflops/s",
    "GFLOP/s": "gflop gflops/s", "TFLOP/s": "tflop tflops/s teraflop teraflop/s",
    "PFLOP/s": "pflop pflops/s petaflop petaflop/s", "thousands": "thousand k",
    "millions": "million mio", "billions": "billion bn", "trillions": "trillion",
    "%": "percent pct",
}  # fmt: skip
# Letters that stand for a unit only after a count of things.
LETTERS = {"m": "millions", "b": "billions", "g": "billions", "t": "trillions"}
PER = re.compile(r"(?P<what>.*?)\s*(?:/|\bper\b)\s*(?:an? )?(?P<per>\w+)")
HELD = re.compile(r"(?:gpu|device)s?[\s-]+(?P<time>\w+)")
FILE = "units.toml"
# A wrong value and its hint.
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
            found |= {other: name, f"{other}s": name}
    for file in (locale_folder() / code / FILE for code in LANGUAGES):
        known = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
        found |= {word: name for name, words in known.items() for word in words}
    return found


def _scale_of(unit: str) -> Scale:
    return next((scale for scale in SCALES if unit in scale), {})


def _other_units(unit: str) -> dict[str, float]:
    """Map each unit that learners may confuse with this unit to the factor between the two."""
    scale = _scale_of(unit)
    return {
        other: scale[unit] / size
        for other, size in scale.items()
        if other != unit and other not in NO_MISTAKE
    }


def unit_factor(written: str, wanted: str) -> float | None:
    """Return the factor from the written unit to the wanted unit; None if they do not convert.

    Words that are not a unit ("63 micro-batches") say what is counted. Their factor is 1.
    """
    words, to = written.lower().strip(), _scale_of(wanted)
    is_count = not to or to is COUNTS
    first, _unused, rest = words.partition(" ")
    name = (LETTERS.get(first) if is_count else None) or _units_by_name().get(first, "")
    if name in COUNTS and to is COUNTS:
        return COUNTS[name] / to[wanted]
    if name in COUNTS and (rest or is_count):  # "billion tokens", "million bytes"
        each = unit_factor(rest.removeprefix("of "), wanted)
        return None if each is None else COUNTS[name] * each
    name = "bytes" if words == "b" and to is SIZES else _unit_in(words)
    if name in to or (name in TIMES and to is DEVICE_TIMES):
        return (to | TIMES)[name] / to[wanted]
    if name:
        return 0.01 if name == "%" and not wanted else None
    rate = PER.fullmatch(words)
    time = TIMES.get(_units_by_name().get(rate["per"], "") if rate else "")
    if time is not None:
        return 1 / time if wanted.endswith(" per second") else None
    return 1.0


def _unit_in(words: str) -> str:
    """Return the unit that these words begin with ("MB/sample" is MB); "" if they name no unit."""
    known = _units_by_name()
    if held := HELD.match(words):
        time = known.get(held["time"], "")
        return f"device-{'seconds' if time == 's' else time}" if time in TIMES else ""
    if words in known:
        return known[words]
    rate = PER.fullmatch(words)
    if rate and known.get(rate["per"]) in TIMES:
        return ""
    return known.get((rate["what"] if rate else words).partition(" ")[0], "")


def text_in(answer: object) -> str | None:
    """Return the text if the answer is a text or holds exactly one; else None."""
    found = only_one(answer)
    return str(found) if isinstance(found, str) else None


def only_one(answer: Any) -> Any:
    """Return the only element of a list, set, table or generator; otherwise the answer itself."""
    for _depth in range(DEEPEST):
        if isinstance(answer, str | bytes):
            break
        try:
            inside = answer.values() if isinstance(answer, Mapping) else answer
            inside = inside.to_numpy() if hasattr(inside, "to_numpy") else inside
            found = list(islice(inside, 2))
        except Exception:  # not iterable, or iterating over it fails
            break
        if len(found) != 1:
            break
        [answer] = found
    return answer


def plain(answer: object) -> object:
    """Return the answer's number or text as a plain Python value; otherwise the answer itself."""
    number = number_in(answer)
    if number is not None:
        return int(number) if number.is_integer() else number
    text = text_in(answer)
    return answer if text is None else text


def why_no_number(answer: object) -> str:
    """Explain why the answer is not a number."""
    if isinstance(answer, str) and re.search(r"\d[^\d]*\b(?:or|and|to)\s+\d", answer):
        return _(
            "It is the text {text} now, with two numbers. Decide for one of them.",
            text=in_short(answer),
        )
    if isinstance(answer, str) and re.search(r"\d", answer):
        return _(
            "It is the text {text} now. Give the number without quotation marks and without its "
            "unit.",
            text=in_short(answer),
        )
    if isinstance(answer, Real) and not isinstance(answer, bool):
        return _(
            "It is {value} now, which is not finite. Look for a missing value or a division by 0 "
            "in the cell above.",
            value=in_short(answer),
        )
    return what_it_is(answer, _("one number is asked for"))


def what_it_is(answer: object, wanted: str) -> str:
    """Say what the answer is instead of the wanted value: its kind, size or value."""
    if missing := _of(answer, "missing", ()):
        return _("Still to fill in: {names}.", names=", ".join(map(str, missing)))
    size = _of(answer, "size", len(answer) if isinstance(answer, SEVERAL) else 1)
    value, kind = in_short(answer), type(answer).__name__
    if isinstance(answer, SEVERAL) and size == 1:
        return _("It is {value} now; {wanted}, without brackets.", value=value, wanted=wanted)
    if isinstance(size, int) and size != 1:
        return _(
            "It is {kind} with {size} values now; {wanted}.", kind=kind, size=size, wanted=wanted
        )
    return _("It is {value} now; {wanted}.", value=value, wanted=wanted)


def _of(answer: object, name: str, otherwise: Any) -> Any:
    try:
        return getattr(answer, name, otherwise)
    except Exception:  # a property of a learner's class may raise
        return otherwise


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


def is_rounded(given: float, right: float) -> bool:
    """Return whether this is the right number with fewer digits, rounded or cut off."""
    exponent = Decimal(repr(float(given))).normalize().as_tuple().exponent
    return isinstance(exponent, int) and abs(given - right) <= 0.6 * 10.0**exponent


@dataclass(frozen=True, kw_only=True)
class Amount:
    """The number that is asked for, and hints for likely wrong numbers.

    `slips` maps the wrong numbers that this exercise invites to their hints. `unit`, `ring` (a
    number of devices) and `counts` (factors of the exercise) explain further wrong numbers.
    """

    right: float
    unit: str = ""
    share: float = ROUNDED
    # Tolerance for any number. Beyond it, the number has to be rounded, such as 38 for 37.6.
    fine: float = 0.0075
    # The accepted interval, if it is not just a tolerance around `right`.
    within: tuple[float, float] | None = None
    # Results of other correct methods. Their tolerance is at most ROUNDED.
    also: tuple[float, ...] = ()
    slips: Mapping[float, str] = field(default_factory=dict)
    # Given or intermediate numbers of the exercise. None of them is the answer.
    known: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    ring: int = 0

    def is_met_by(self, given: float) -> bool:
        if self.within is not None:
            return self.within[0] <= given <= self.within[1]
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
        size = COUNTS.get(self.unit, math.inf)
        if written and times == 1 and given >= size:
            return float(given) / size  # 124,400,000 parameters are a plain count, not millions
        return float(given) * times

    def mistake(self, given: float) -> str:
        """Say which mistake gives this number; "" if none is known."""
        for slips in self._all_slips():
            found = [slip for slip in slips if self._is_near(given, slip[0])]
            if found:
                nearest = min((value for value, _said in found), key=lambda one: abs(given - one))
                said = [text for value, text in found if close(value, nearest, SAME)]
                if self.share > ROUNDED:  # several mistakes may explain it
                    said += [text for _value, text in found]
                return f"\n{_('Or:')} ".join(list(dict.fromkeys(said))[:2])
        return ""

    def _all_slips(self) -> Iterator[list[Slip]]:
        """Yield this exercise's mistakes first, then the mistakes possible with any number."""
        yield [*self.slips.items(), *_known(self.known)]
        yield list(_ring(self.right, self.ring))
        yield list(_units(self.right, self.unit))
        yield list(_counts(self.right, self.counts))
        yield list(_digits(self.right, is_whole=self.share <= EXACT))

    def _is_near(self, given: float, wrong: float) -> bool:
        """Return whether the given number is close to this wrong number.

        The tolerance is a tenth of the slip's effect: 0.5 % for a slip of 5 %, such as MB for MiB.
        """
        moved = abs(wrong / self.right - 1) if self.right else math.inf
        if not moved or not close(given, wrong, min(ROUNDED, moved / 10)):
            return False
        fine = self.fine if self.share > EXACT else EXACT
        return self.share > ROUNDED or close(given, wrong, fine) or is_rounded(given, wrong)

    def size(self, given: float) -> str:
        """Return a hint from the size of a number that no slip explains; else ""."""
        if given <= 0 < self.right:
            return _("It is more than nothing: 0 and less cannot be.")
        times = given / self.right if self.right else 1.0
        if times > 30:
            return _("That is {times:.2g} times too much: a count, or a unit?", times=times)
        if times < 1 / 30:
            return _("That is {times:.2g} times too little: a count, or a unit?", times=1 / times)
        if self.share > EXACT and close(given, self.right, 0.1):
            return _(
                "That is near, and not near enough. Keep three digits, also on the way; is a small "
                "part left out, or counted too much?"
            )
        return ""


def _known(known: Mapping[str, float]) -> Iterator[Slip]:
    for what, value in known.items():
        said = _("That is {what}: given, or on the way, and not what is asked for.", what=what)
        yield value, said


def _ring(right: float, devices: int) -> Iterator[Slip]:
    """Yield mistakes with the factor 2 (d - 1) / d of a ring."""
    if devices < 2:
        return
    factor = 2 * (devices - 1) / devices
    yield (
        right / factor,
        _(
            "That is for the size of what is reduced. In a ring every piece of it travels more "
            "than once."
        ),
    )
    yield (
        right / 2,
        _("That is half. The ring goes round twice: once to add up, once to hand out."),
    )
    yield (
        right * 2,
        _(
            "That is twice as much. Did you count what a device receives as well as what it sends, "
            "or two exchanges?"
        ),
    )
    yield (
        right / factor**2,
        _("The factor of the ring is upside down: it is 2 (d − 1) / d."),
    )


def _units(right: float, unit: str) -> Iterator[Slip]:
    for other, ratio in _other_units(unit).items():
        yield (
            right * ratio,
            _(
                "The unit is another one: these are {other}; {wanted} are asked for.",
                other=_(SHOWN.get(other, other)),
                wanted=_(SHOWN.get(unit, unit)),
            ),
        )


def _counts(right: float, counts: Mapping[str, float]) -> Iterator[Slip]:
    for count in dict.fromkeys(counts.values()):
        said = _(
            "You are off by {count:g}. Here {count:g} is: {names}. Left out, or counted twice?",
            count=count,
            names=", ".join(name for name, size in counts.items() if size == count),
        )
        yield from ((right / count, said), (right * count, said))


def _digits(right: float, *, is_whole: bool) -> Iterator[Slip]:
    if is_whole:
        said = _("You are off by one: which way is it rounded, and which end is counted?")
        yield from ((right - 1, said), (right + 1, said))
    yield -right, _("The sign is the other one.")
    said = _("The digits are right, the power of ten is not: count the zeros.")
    for power in (1, 2, 3, 6, 9):
        yield from ((right * 10.0**power, said), (right / 10.0**power, said))
    if right:
        yield 1 / right, _("It is upside down: you divided the other way round.")
