"""Likely wrong values of a quantity, so that a wrong answer is told which slip explains it.

A check says what is right and what it is made of (its unit, the counts that it is multiplied by,
bytes per number, devices of a ring). From that follow the values of the slips that everybody makes:
MB for MiB, seconds for milliseconds, one device for all, one byte per number, the ring gone round
once, one too many. What only this exercise invites is given as `own` and is asked first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice, product

import numpy as np

from course_lib.teach.answers import close
from course_lib.teach.quantities.likely import (
    Slip,
    of_bytes,
    of_counts,
    of_digits,
    of_known,
    of_miscounts,
    of_other_ways,
    of_parts,
    of_passes,
    of_rounding,
    of_the_ring,
    of_units,
)
from course_lib.teach.quantities.units import COUNTS, factor, names_things, of_the_same_kind
from course_lib.teach.quantities.written import Written
from course_lib.words import told

__all__ = ["EXACT", "ROUNDED", "Quantity", "Slip"]
EXACT = 1e-7
"""Or less, for whole numbers. They may have come through float32, and nothing else."""
ROUNDED = 0.02
"""Share by which a wrong answer may differ from the value of its slip."""
APART = 10
"""A slip that moves a value by 5 %, such as MB for MiB, is recognised within a tenth of that."""
SAME = 1e-3
MOST_PARTICULAR, UNITS, ROUNDING = 0, 2, 7
OF_SCALE = (UNITS, 5, 6)
"""Places in `slips`: what is off by a unit or a power of ten has the right digits."""
TOGETHER = 2e-3
"""Share by which an answer may differ from two slips at once: there are many pairs."""
NEARLY = 0.1
SHORTENED = 2e-3
CUT = 0.6
MANY = 30
LONG = 1e5
"""From here on also an exact number may be told with fewer digits: 4.29e9 for 2**32."""
OF_NUMBERS = ("bytes", "MB", "MiB", "GB", "GiB", "FLOP/s", "TFLOP/s", "millions", "billions")
MANIFOLD = ("millions", "billions", "trillions")
FACTORS = {
    2: "both directions, forward and backward, two bytes for one number",
    3: "one pass of three, gradients and two moments of Adam",
    4: "bytes of a float32, 4 × hidden in an MLP, the devices of two nodes",
    8: "bits of a byte, the devices of a node, bytes of a float64",
    12: "what Adam keeps beside a parameter, in bytes",
    16: "what Adam, gradient and parameter take together, in bytes",
}
"""What these factors usually are, so that an answer which is off by one of them may be traced."""
PLAIN = (2, 4, 8)
"""Likelier one slip than two that make them up by chance."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """`counts` names the counts that the value is a product of, `shared_by` those that divide it;
    `within` is what is accepted, where that is not just the share around `right`."""

    right: float
    unit: str = ""
    share: float = ROUNDED
    within: tuple[float, float] | None = None
    fine: float = 0.0075
    """Share up to which any number is right; beyond it only one that is rounded, 38 for 37.6."""
    own: tuple[Slip, ...] = ()
    known: Mapping[str, float] = field(default_factory=dict)
    """What the exercise tells, and what lies on the way: none of it is the answer."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What the value is a sum of."""
    counts: Mapping[str, float] = field(default_factory=dict)
    shared_by: Mapping[str, float] = field(default_factory=dict)
    bytes_each: int = 0
    ring: int = 0
    is_work: bool = False
    """FLOPs of a training step, of which forward is a third."""

    def is_met_by(self, given: float) -> bool:
        if self.within is not None:
            return self.within[0] <= given <= self.within[1]
        if self.share <= EXACT:
            return given in (self.right, float(np.float32(self.right))) or (
                abs(self.right) >= LONG
                and close(given, self.right, SHORTENED)
                and _is_rounded(given, self.right)
            )
        if self.share != ROUNDED or close(given, self.right, self.fine):
            return close(given, self.right, self.share)
        return close(given, self.right, self.share) and _is_rounded(given, self.right)

    def in_its_unit(self, given: float) -> float | None:
        """Of a number that was written with a unit; None where that is one of something else."""
        times = factor(given.unit, self.unit) if isinstance(given, Written) else 1
        if times is None:
            return None
        if isinstance(given, Written) and names_things(given.unit):
            times = self._one_by_one(float(given), times)
        return float(given) * times

    def _one_by_one(self, given: float, times: float) -> float:
        """124,400,000 parameters are not so many millions of them."""
        is_count = self.unit in MANIFOLD and given >= COUNTS[self.unit]
        return 1 / COUNTS[self.unit] if is_count else times

    def right_but_for_the_unit(self, given: float) -> str:
        """Of a number that is right in a unit of this kind, and another one was written."""
        meant = self.in_its_unit(given)
        if not isinstance(given, Written) or not (given.unit and self.unit) or meant is None:
            return ""
        if self.is_met_by(meant) or meant == float(given):
            return ""
        for unit, times in ((self.unit, 1.0), *of_the_same_kind(self.unit)):
            if self.is_met_by(float(given) * times):
                return f"The number is right in {unit}. You wrote {given.unit}."
        return ""

    def or_as(self, *others: float, given: float, share: float | None = None) -> Quantity:
        """Where several ways are right: as that one whose value was given."""
        meant, share = self.in_its_unit(given), self.share if share is None else share
        ways = [replace(self, right=right, share=share) for right in others]
        return next((way for way in ways if meant is not None and way.is_met_by(meant)), self)

    def explain(self, given: float) -> str:
        """What was done instead, if one slip accounts for the answer, or two together. Of several
        that give the same value the two most particular ones are told; where the answer may be
        far off and still be right, also of several values that it may have been meant for."""
        found = [
            (place, slip)
            for place, slips in enumerate(self.slips())
            for slip in slips
            if self._is_near(given, slip[0], place)
        ]
        if not found:
            return self._two_at_once(given)
        nearest = min((value for _, (value, _) in found), key=lambda value: abs(given - value))
        same = [(place, said) for place, (value, said) in found if close(value, nearest, SAME)]
        first = min(place for place, _ in same)
        told_of = [said for place, said in same if place == first]
        if self.share > ROUNDED:
            likely = (UNITS,) if close(given, nearest, SAME) else (MOST_PARTICULAR, UNITS)
            told_of += [said for place, (_, said) in found if place in likely]
        return f"\n{told('Or:')} ".join(list(dict.fromkeys(told_of))[:2])

    def _two_at_once(self, given: float) -> str:
        """One of them is invited by this exercise; any two of those that everybody makes meet a
        wrong number by chance."""
        if not self.right:
            return ""
        left_out = [
            *islice(of_the_ring(self.right, self.ring), 1),
            *islice(of_bytes(self.right, self.bytes_each), 1),
        ]
        units = list(of_units(self.right, self.unit))
        pairs = [*product(left_out, units), *product(self.own, units)]
        if self._is_off_by_plain_factor(given):
            pairs = [*product(self.own, units)]
        for one, other in pairs:
            both = one[0] * other[0] / self.right
            if close(given, both, TOGETHER) and not close(both, self.right, SAME):
                return f"{told('Two things at once:')} {one[1]}\n{told('And:')} {other[1]}"
        return ""

    def _is_off_by_plain_factor(self, given: float) -> bool:
        times = given / self.right
        return any(close(times, of, SAME) or close(1, of * times, SAME) for of in PLAIN)

    def at_last(self, given: float) -> str:
        """Where no slip accounts for it: what its size may come from."""
        if given <= 0 < self.right:
            return "It is more than nothing: 0 and less cannot be."
        times = given / self.right if self.right else 1.0
        for count, what in FACTORS.items():
            if close(times, count, SAME * 5) or close(times, 1 / count, SAME * 5):
                return (
                    f"You are off by {count}. Such a factor may be: {what}."
                    if self.unit in OF_NUMBERS
                    else f"You are off by {count}. Which count is in it too often, or missing?"
                )
        if not 1 / MANY < times < MANY:
            return _by_far(times)
        return "" if self.share <= EXACT else self._nearly(given, times)

    def _nearly(self, given: float, times: float) -> str:
        if given == int(given) and abs(given - self.right) < 1 <= abs(self.right):
            return "That is rounded too far: keep three digits, also on the way."
        if abs(times - 1) > NEARLY:
            return ""
        return (
            "That is near, and not near enough: was something rounded on the way, or a small "
            "part left out or counted too much?"
        )

    def _is_near(self, given: float, wrong: float, place: int) -> bool:
        """Of a unit or a power of ten: that it would be right with the other one."""
        if place in OF_SCALE and self.right and wrong:
            meant = given * self.right / wrong
            return close(meant, self.right, EXACT) or self.is_met_by(meant)
        if place == ROUNDING:
            return given == wrong
        moved = abs(wrong / self.right - 1) if self.right else math.inf
        if not moved or not close(given, wrong, min(ROUNDED, moved / APART)):
            return False
        return self.share > ROUNDED or close(given, wrong, self.fine) or _is_rounded(given, wrong)

    def slips(self) -> Iterator[list[Slip]]:
        """The most particular ones first: what only here is invited, what follows from the make-up
        of the value, and what may happen to any."""
        yield [*self.own, *of_parts(self.right, self.parts), *of_known(self.known)]
        yield [
            *of_the_ring(self.right, self.ring),
            *of_bytes(self.right, self.bytes_each),
            *(of_passes(self.right) if self.is_work else ()),
        ]
        yield list(of_units(self.right, self.unit))
        yield list(of_counts(self.right, {**self.counts, **self.shared_by}))
        yield list(of_miscounts(self.right, self.counts, self.shared_by))
        yield list(of_other_ways(self.right, self.unit))
        yield list(of_digits(self.right, is_whole=self.share <= EXACT))
        yield list(of_rounding(self.right)) if self.share > EXACT else []


def _by_far(times: float) -> str:
    if times > 1:
        return f"That is {times:.2g} times too much: a whole count, or a unit, is too many."
    return f"That is {1 / times:.2g} times too little: a whole count, or a unit, is missing."


def _is_rounded(given: float, right: float) -> bool:
    """To the digits that it has; a last digit that was cut off is no mistake."""
    exponent = Decimal(repr(float(given))).normalize().as_tuple().exponent
    return isinstance(exponent, int) and abs(given - right) <= CUT * 10.0**exponent
