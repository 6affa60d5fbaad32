"""Errors of this room: what was asked, the rule it breaks, and a value that would work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from course_lib.mistakes.errors import CourseError
from course_lib.mistakes.kinds import shown
from course_lib.plan.numbers import not_whole, real, whole

T = TypeVar("T")
MOST = 10**15
"""No count of this field is larger, and arithmetic with it stays within a float."""


class PlanError(CourseError, ValueError):
    """A shape, layout or question that cannot be; its text says what would work."""


def whole_number(what: str, value: object, least: int = 1) -> int:
    """In Python's own type, which does not overflow as numpy's do."""
    found = whole(value)
    if found is None:
        raise PlanError(f"{what} = {shown(value)} {not_whole(value)}; use {max(least, 1)} or more")
    if found < least:
        raise PlanError(f"{what} {found} is too small; use {least} or more")
    if found > MOST:
        raise PlanError(f"{what} {found} is too large; use {MOST:.0e} or less")
    return found


def number(what: str, value: object, least: float | None = None, above: bool = False) -> float:
    """An int stays one, so that it is shown as it was written. `above`: not `least` itself."""
    found = real(value)
    if found is None:
        raise PlanError(f"{what} = {shown(value)} is not a finite number; use one such as 1 or 2.5")
    if least is not None and (found <= least if above else found < least):
        works = f"one above {least:g}" if above else f"{least:g} or more"
        raise PlanError(f"{what} {value} is too small; use {works}")
    integer = whole(value)
    return found if integer is None else integer


def positive(what: str, value: object) -> float:
    return number(what, value, 0, above=True)


def keep_whole(holder: object, *names: str, least: int = 1, of: str = "") -> None:
    """Checks these fields of a frozen dataclass when it is made, and keeps Python's own numbers."""
    for name in names:
        value = whole_number(f"{of}{name}", getattr(holder, name), least)
        object.__setattr__(holder, name, value)


def keep_numbers(
    holder: object, *names: str, least: float = 0, above: bool = False, unknown: bool = False
) -> None:
    """The same for any number; where it may be `unknown`, None stays."""
    for name in names:
        value = getattr(holder, name)
        if value is not None or not unknown:
            object.__setattr__(holder, name, number(name, value, least, above))


def keep_flags(holder: object, *names: str) -> None:
    """The text "False" counts as true in Python, and would be taken for it."""
    for name in names:
        value = getattr(holder, name)
        if value is not True and value is not False:
            object.__setattr__(holder, name, flag(name, value))


def flag(what: str, value: object) -> bool:
    if isinstance(value, str) or str(value) not in ("True", "False"):
        raise PlanError(f"{what} = {shown(value)} is neither True nor False; use one of them")
    return bool(value)


def expect(kind: type[T], what: str, value: object, such_as: str) -> T:
    """The value itself, if it is of this kind."""
    if not isinstance(value, kind):
        raise PlanError(
            f"{what} = {shown(value)} is not a {kind.__name__}; use one such as {such_as}"
        )
    return value


def expect_each(kind: type[T], what: str, values: object, such_as: str) -> tuple[T, ...]:
    """Several of this kind, in any container but a text."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise PlanError(f"{what} = {shown(values)} is no list; use one such as [{such_as}]")
    return tuple(expect(kind, what, value, such_as) for value in values)


def one_of(what: str, value: object, allowed: Iterable[str]) -> None:
    choices = tuple(allowed)
    if not isinstance(value, str) or value not in choices:
        raise PlanError(f"{what} {shown(value)} is unknown; use one of {', '.join(choices)}")


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


def named(what: str, name: object, table: Mapping[str, T]) -> T:
    """The entry of a table, in capitals or not."""
    if isinstance(name, str):
        if name in table:
            return table[name]
        for key, value in table.items():
            if key.lower() == name.strip().lower():
                return value
    raise PlanError(f"no {what} {shown(name)} in the table; there are: {', '.join(table)}")
