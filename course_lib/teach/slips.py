"""Likely wrong values of a quantity, so that a wrong answer is told which slip explains it.

A check says what is right and what it is made of (its unit, the counts that it is multiplied by,
bytes per number, devices of a ring). From that follow the values of the slips that everybody makes:
MB for MiB, seconds for milliseconds, one device for all, one byte per number, the ring gone round
once, one too many. What only this exercise invites is given as `own` and is asked first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from course_lib.teach.answers import close
from course_lib.words import spoken, told

Slip = tuple[float, str]
"""A wrong value, and what is said of it."""
EXACT = 1e-7
"""Share for whole numbers: they may have come through float32."""
ROUNDED = 0.02
"""Share by which a wrong answer may differ from the value of its slip."""
APART = 10
"""A slip that moves a value by 5 %, such as MB for MiB, is recognised within a tenth of that."""
SAME = 1e-3
SCALES: tuple[Mapping[str, float], ...] = (
    {
        "bits": 1 / 8, "bytes": 1, "kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9,
        "GiB": 2**30,
    },
    {
        "µs": 1e-6, "ms": 1e-3, "s": 1, "minutes": 60, "hours": 3600, "days": 86400,
        "weeks": 7 * 86400, "years": 365.25 * 86400,
    },
    {"device-seconds": 1, "device-minutes": 60, "device-hours": 3600},
    {"FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    {"single ones": 1, "thousands": 1e3, "millions": 1e6, "units of 2²⁰": 2**20, "billions": 1e9},
    {"%": 0.01, "parts of 1": 1},
)  # fmt: skip
UNITS_SHOWN = spoken(
    "bits", "bytes", "minutes", "hours", "days", "weeks", "years", "device-seconds",
    "device-minutes", "device-hours", "thousands", "millions", "billions",
)  # fmt: skip
SPELT = {
    "kB": "kB (10³ bytes)", "KiB": "KiB (2¹⁰ bytes)", "MB": "MB (10⁶ bytes)",
    "MiB": "MiB (2²⁰ bytes)", "GB": "GB (10⁹ bytes)", "GiB": "GiB (2³⁰ bytes)",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """`counts` names the counts that the value is a product of; `within` is what is accepted, where
    that is not just the share around `right`."""

    right: float
    unit: str = ""
    share: float = ROUNDED
    within: tuple[float, float] | None = None
    own: tuple[Slip, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)
    bytes_each: int = 0
    ring: int = 0
    is_work: bool = False
    """FLOPs of a training step, of which forward is a third."""

    def is_met_by(self, given: float) -> bool:
        if self.within is None:
            return close(given, self.right, self.share)
        return self.within[0] <= given <= self.within[1]

    def explain(self, given: float) -> str:
        """What was done instead, if one slip accounts for the answer. Of several that give the same
        value the two most particular ones are told."""
        found = [
            (place, slip)
            for place, slips in enumerate(self.slips())
            for slip in slips
            if self._is_near(given, slip[0])
        ]
        if not found:
            return ""
        nearest = min((value for _, (value, _) in found), key=lambda value: abs(given - value))
        same = [(place, said) for place, (value, said) in found if close(value, nearest, SAME)]
        first = min(place for place, _ in same)
        return f"\n{told('Or:')} ".join([said for place, said in same if place == first][:2])

    def _is_near(self, given: float, wrong: float) -> bool:
        moved = abs(wrong / self.right - 1) if self.right else math.inf
        return moved > 0 and close(given, wrong, min(ROUNDED, moved / APART))

    def slips(self) -> Iterator[list[Slip]]:
        """The most particular ones first: what only here is invited, what follows from the make-up
        of the value, and what may happen to any."""
        yield list(self.own)
        yield [
            *_of_the_ring(self.right, self.ring),
            *_of_bytes(self.right, self.bytes_each),
            *_of_counts(self.right, self.counts),
            *(_of_passes(self.right) if self.is_work else ()),
        ]
        yield list(_of_units(self.right, self.unit))
        yield list(_of_other_ways(self.right, self.unit))
        yield list(_of_digits(self.right, is_whole=self.share <= EXACT))


def _of_the_ring(right: float, devices: int) -> Iterator[Slip]:
    if devices < 2:
        return
    factor = 2 * (devices - 1) / devices
    yield (
        right / factor,
        "That is for the size of what is reduced. In a ring every piece of it travels more than "
        "once.",
    )
    yield right / 2, "That is half. The ring goes round twice: once to add up, once to hand out."
    yield (
        right * 2 / factor,
        f"That is for twice its size. The factor of a ring of d is 2 (d − 1) / d; d is {devices}.",
    )
    yield (
        right * devices,
        f"That is what all {devices} devices send together, or whole steps that were not cut into "
        f"{devices} pieces.",
    )
    yield right / devices, f"That is one piece of {devices}. How many does a device pass on?"


def _of_bytes(right: float, bytes_each: int) -> Iterator[Slip]:
    if not bytes_each:
        return
    yield right / bytes_each, f"You counted numbers, not bytes: each number has {bytes_each} bytes."
    for other in {2, 4, 8} - {bytes_each}:
        hint = f"With {other} bytes for each number it would be so. Here each has {bytes_each}."
        yield right * other / bytes_each, hint


def _of_passes(right: float) -> Iterator[Slip]:
    yield right / 3, "That is the forward pass alone, and the backward pass is twice that."
    yield right * 2 / 3, "That is the backward pass alone."
    yield right * 4 / 3, "That counts the forward pass twice, as with recomputation."


def _of_counts(right: float, counts: Mapping[str, float]) -> Iterator[Slip]:
    for name, count in counts.items():
        hint = f"You are off by {count:g}. Are the {count:g} {name} left out, or counted twice?"
        yield from ((right / count, hint), (right * count, hint))
        for other in (count - 1, count + 1):
            if other > 0:
                yield (
                    right * other / count,
                    f"That is for {other:g} {name}. Count them again: you are off by one.",
                )
    for one, another in combinations(counts, 2):
        product = counts[one] * counts[another]
        hint = (
            f"You are off by {product:g}. Are both the {counts[one]:g} {one} and the "
            f"{counts[another]:g} {another} left out, or counted twice?"
        )
        yield from ((right / product, hint), (right * product, hint))


def _of_units(right: float, unit: str) -> Iterator[Slip]:
    for other, ratio in _other_units(unit):
        yield (
            right * ratio,
            f"The unit is another one: these are {SPELT.get(other, other)}; "
            f"{SPELT.get(unit, unit)} are asked for.",
        )


def _of_other_ways(right: float, unit: str) -> Iterator[Slip]:
    for other, ratio in _other_units(unit):
        yield (
            right / ratio,
            f"The unit is another one: between {other} and {unit} you multiplied where one "
            "divides, or divided where one multiplies.",
        )


def _other_units(unit: str) -> Iterator[tuple[str, float]]:
    scale = next((scale for scale in SCALES if unit in scale), {})
    return ((other, scale[unit] / size) for other, size in scale.items() if other != unit)


def _of_digits(right: float, *, is_whole: bool) -> Iterator[Slip]:
    if is_whole:
        for other in (right - 1, right + 1):
            yield other, "You are off by one. Which end is counted, and which is not?"
    yield -right, "The sign is the other one."
    for power in (1, 2, 3, 6, 9):
        for factor in (10.0**power, 10.0**-power):
            yield right * factor, "The digits are right, the power of ten is not: count the zeros."
    if right:
        yield 1 / right, "It is upside down: you divided the other way round."
