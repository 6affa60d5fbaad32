"""Values of the slips that everybody makes, from the right value and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from course_lib.teach.quantities.units import SPELT, others_of

Slip = tuple[float, str]
"""A wrong value, and what is said of it."""
FLOAT32, WITH_ADAM = 4, 16
"""Bytes of a number, and of a parameter with its gradient and what Adam keeps."""


def of_known(known: Mapping[str, float]) -> Iterator[Slip]:
    for what, value in known.items():
        yield value, f"That is {what}: given, or on the way, and not what is asked for."


def of_parts(right: float, parts: Mapping[str, float]) -> Iterator[Slip]:
    for what, value in parts.items():
        yield right - value, f"You left something out: {what}."
        yield right + value, f"You counted something twice: {what}."
        yield value, f"That is one part alone: {what}. What comes to it?"


def of_the_ring(right: float, devices: int) -> Iterator[Slip]:
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
        right * 2,
        "That is twice as much. Did you count what a device receives as well as what it sends, two "
        "devices, or two exchanges?",
    )
    yield (
        right * 2 / factor,
        f"That is for twice its size. The factor of a ring of d is 2 (d − 1) / d; d is {devices}.",
    )
    yield (
        right * devices,
        f"That is what all {devices} devices send together, or whole steps that were not cut into "
        f"{devices} pieces.",
    )
    for wrong in (right / factor**2, right / factor * 2 * devices / (devices - 1)):
        yield wrong, "The factor of the ring is upside down: it is 2 (d − 1) / d."
    yield (
        right * (devices + 1) / (devices - 1),
        "The factor of the ring is 2 (d − 1) / d. You took d + 1.",
    )
    for other in {2, 4, 8, 16} - {devices}:
        wrong = right / factor * 2 * (other - 1) / other
        yield wrong, f"That is for a ring of {other}. Here it has {devices} devices."
    yield right / devices, f"That is one piece of {devices}. How many does a device pass on?"


def of_bytes(right: float, bytes_each: int) -> Iterator[Slip]:
    if not bytes_each:
        return
    yield right / bytes_each, f"You counted numbers, not bytes: each number has {bytes_each} bytes."
    for other in {2, 4, 8} - {bytes_each}:
        hint = f"With {other} bytes for each number it would be so. Here each has {bytes_each}."
        yield right * other / bytes_each, hint
    if bytes_each == FLOAT32:
        yield (
            right * WITH_ADAM / FLOAT32,
            "16 bytes are a parameter, its gradient and what Adam keeps of it. A gradient has 4.",
        )


def of_passes(right: float) -> Iterator[Slip]:
    yield right / 3, "That is the forward pass alone, and the backward pass is twice that."
    yield right * 2 / 3, "That is the backward pass alone."
    yield right * 4 / 3, "That counts the forward pass twice, as with recomputation."


def of_counts(right: float, counts: Mapping[str, float]) -> Iterator[Slip]:
    for name, count in counts.items():
        hint = f"You are off by {count:g}. Are the {count:g} {name} left out, or counted twice?"
        yield from ((right / count, hint), (right * count, hint))
    for one, another in combinations(counts, 2):
        product = counts[one] * counts[another]
        hint = (
            f"You are off by {product:g}. Are both the {counts[one]:g} {one} and the "
            f"{counts[another]:g} {another} left out, or counted twice?"
        )
        yield from ((right / product, hint), (right * product, hint))


def of_miscounts(
    right: float, counts: Mapping[str, float], shared_by: Mapping[str, float]
) -> Iterator[Slip]:
    """One more or one less of what the value grows with, or is divided by."""
    for given, power in ((counts, 1), (shared_by, -1)):
        for name, count in given.items():
            for other in (count - 1, count + 1):
                if other > 0:
                    yield (
                        right * (other / count) ** power,
                        f"That is for {other:g} {name}. Count them again: you are off by one.",
                    )


def of_units(right: float, unit: str) -> Iterator[Slip]:
    for other, ratio in others_of(unit):
        yield (
            right * ratio,
            f"The unit is another one: these are {SPELT.get(other, other)}; "
            f"{SPELT.get(unit, unit)} are asked for.",
        )


def of_other_ways(right: float, unit: str) -> Iterator[Slip]:
    for other, ratio in others_of(unit):
        yield (
            right / ratio,
            f"The unit is another one: between {other} and {unit} you multiplied where one "
            "divides, or divided where one multiplies.",
        )


def of_digits(right: float, *, is_whole: bool) -> Iterator[Slip]:
    if is_whole:
        for other in (right - 1, right + 1):
            yield other, "You are off by one: which way is it rounded, and which end is counted?"
    yield -right, "The sign is the other one."
    for power in (1, 2, 3, 6, 9):
        for times in (10.0**power, 10.0**-power):
            yield right * times, "The digits are right, the power of ten is not: count the zeros."
    if right:
        yield 1 / right, "It is upside down: you divided the other way round."


def of_rounding(right: float) -> Iterator[Slip]:
    """To one digit, of what is no whole number: those are counted, not rounded."""
    rounded = float(f"{right:.0e}")
    if rounded != right and not float(right).is_integer():
        yield rounded, "That is rounded too far: keep three digits, also on the way."
