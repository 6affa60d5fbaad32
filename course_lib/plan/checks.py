"""Errors of this room: what was asked, the rule it breaks, and a value that would work."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.plan.numbers import real, whole


class PlanError(ValueError):
    """A shape, layout or question that cannot be; its text says what would work."""


def whole_number(what: str, value: object, least: int = 1) -> int:
    """In Python's own type, which does not overflow as numpy's do."""
    found = whole(value)
    if found is None:
        raise PlanError(f"{what} = {value!r} is not a whole number; use {max(least, 1)} or more")
    if found < least:
        raise PlanError(f"{what} {found} is too small; use {least} or more")
    return found


def number(what: str, value: object) -> float:
    """An int stays one, so that it is shown as it was written."""
    found = real(value)
    if found is None:
        raise PlanError(f"{what} = {value!r} is not a finite number; use one such as 1 or 2.5")
    integer = whole(value)
    return found if integer is None else integer


def keep_whole(holder: object, *names: str, least: int = 1, of: str = "") -> None:
    """Checks these fields of a frozen dataclass when it is made, and keeps Python's own numbers."""
    for name in names:
        value = whole_number(f"{of}{name}", getattr(holder, name), least)
        object.__setattr__(holder, name, value)


def keep_numbers(holder: object, *names: str) -> None:
    """The same for any number, or None for one that is unknown."""
    for name in names:
        value = getattr(holder, name)
        if value is not None:
            object.__setattr__(holder, name, number(name, value))


def one_of(what: str, value: object, allowed: Iterable[str]) -> None:
    choices = tuple(allowed)
    if value not in choices:
        raise PlanError(f"{what} {value!r} is unknown; use one of {', '.join(choices)}")


def multiple_of(what: str, value: int, divisor_text: str, divisor: int) -> None:
    """Refuses with the neighbours that would do, the lower one only if it is not zero."""
    if value % divisor == 0:
        return
    lower = value // divisor * divisor
    works = f"{lower} or {lower + divisor}" if lower else f"{divisor} or {2 * divisor}"
    raise PlanError(f"{what} {value} is not a multiple of {divisor_text}; use {works}")


def divides(what: str, parts: int, whole_text: str, whole: int) -> None:
    """`parts` must divide `whole`; names the divisors of `whole` next to what was asked."""
    if whole % parts == 0:
        return
    divisors = [number for number in range(1, whole + 1) if whole % number == 0]
    below = [number for number in divisors if number < parts][-1:]
    above = [number for number in divisors if number > parts][:1]
    works = " or ".join(str(number) for number in below + above)
    raise PlanError(f"{what} {parts} does not divide {whole_text} {whole}; use {works}")
