"""Checks of arguments; each error says what was asked, the rule it breaks and what would work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isqrt
from typing import TypeVar

from course_lib.mistakes.errors import CourseError
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import near
from course_lib.plan.numbers import not_whole, real, unboxed, whole
from course_lib.words import _

T = TypeVar("T")
# Bounds of every number: at most MOST and, unless it is 0, at least 1 / MOST. Arithmetic with such
# numbers stays within a float.
MOST = 10**15
# Bounds of counts, and of layers and devices, over which the planner loops one by one.
MOST_WHOLE, MOST_PARTS = 10**9, 10**6


class PlanError(CourseError, ValueError):
    """Error for an impossible shape, layout or question; its text says what would work."""


def whole_number(what: str, value: object, least: int = 1, most: int = MOST_WHOLE) -> int:
    """Return the value as a Python int, which does not overflow as numpy's integers do."""
    found = whole(value)
    if found is None:
        text = _("{what} = {value} {value2}; use {least} or more", what=what, value=shown(value),
                 value2=not_whole(value), least=max(least, 1))  # fmt: skip
        raise PlanError(text)
    if found < least:
        text = _("{what} {found} is too small; use {least} or more", what=what, found=shown(found),
                 least=least)  # fmt: skip
        raise PlanError(text)
    if found > most:
        text = _("{what} {found} is too large; use {most:g} or less", what=what, found=shown(found),
                 most=most)  # fmt: skip
        raise PlanError(text)
    return found


def number(
    what: str,
    value: object,
    least: float | None = None,
    above: bool = False,
    most: float = MOST,
) -> float:
    """Return a finite number; an int stays an int. With `above`, `least` itself is refused."""
    found = real(value)
    if found is None:
        text = _("{what} = {value} is not a finite number; use a number such as 1 or 2.5",
                 what=what, value=shown(value))  # fmt: skip
        raise PlanError(text)
    if least is not None and (found <= least if above else found < least):
        works = (
            _("one above {least:g}", least=least) if above else _("{least:g} or more", least=least)
        )
        raise PlanError(
            _("{what} {value} is too small; use {works}", what=what, value=value, works=works)
        )
    if abs(found) > most:
        text = _("{what} {value} is too large; use {most:g} or less", what=what, value=shown(value),
                 most=most)  # fmt: skip
        raise PlanError(text)
    if found and abs(found) < 1 / MOST:
        text = _("{what} {value} is too close to 0; use {value2:.0e} or more", what=what,
                 value=value, value2=1 / MOST)  # fmt: skip
        raise PlanError(text)
    integer = whole(value)
    return found if integer is None else integer


def positive(what: str, value: object) -> float:
    return number(what, value, 0, above=True)


def keep_whole(
    holder: object, *names: str, least: int = 1, most: int = MOST_WHOLE, of: str = ""
) -> None:
    """Check whole-number fields of a frozen dataclass and store them as Python ints."""
    for name in names:
        value = whole_number(f"{of}{name}", getattr(holder, name), least, most)
        object.__setattr__(holder, name, value)


def keep_numbers(
    holder: object, *names: str, least: float = 0, above: bool = False, unknown: bool = False,
    most: float = MOST,
) -> None:  # fmt: skip
    """Check number fields of a frozen dataclass. If `unknown`, None is allowed and stays."""
    for name in names:
        value = getattr(holder, name)
        if value is not None or not unknown:
            object.__setattr__(holder, name, number(name, value, least, above, most))


def keep_flags(holder: object, *names: str) -> None:
    """Check True/False fields: the text "False" would count as true in Python."""
    for name in names:
        value = getattr(holder, name)
        if value is not True and value is not False:
            object.__setattr__(holder, name, flag(name, value))


def flag(what: str, value: object) -> bool:
    found = unboxed(value)
    if not isinstance(found, bool):
        text = _("{what} = {value} is neither True nor False; use one of them", what=what,
                 value=shown(value))  # fmt: skip
        raise PlanError(text)
    return found


def expect(kind: type[T], what: str, value: object, such_as: str) -> T:
    """Return the value if it has this type; otherwise raise an error."""
    if not isinstance(value, kind):
        text = _("{what} = {value} is not a {name}; use one such as {such_as}", what=what,
                 value=shown(value), name=kind.__name__, such_as=such_as)  # fmt: skip
        raise PlanError(text)
    return value


def expect_each(
    kind: type[T], what: str, values: object, such_as: str, least: int = 1
) -> tuple[T, ...]:
    """Return the values as a tuple if each has this type; a str, bytes or dict does not count."""
    single = isinstance(values, str | bytes | dict) or getattr(values, "shape", None) == ()
    if single or not isinstance(values, Iterable):
        text = _("{what} = {values} is not a list; use a list such as [{such_as}]", what=what,
                 values=shown(values), such_as=such_as)  # fmt: skip
        raise PlanError(text)
    found = tuple(expect(kind, what, value, such_as) for value in values)
    if len(found) < least:
        raise PlanError(
            _("{what} is empty; use a list such as [{such_as}]", what=what, such_as=such_as)
        )
    return found


def keep_texts(holder: object, *names: str) -> None:
    for name in names:
        expect(str, name, getattr(holder, name), '"H100"')


def one_of(what: str, value: object, allowed: Iterable[str]) -> None:
    choices = tuple(allowed)
    if not isinstance(value, str) or value not in choices:
        text = _("{what} {value} is unknown; use one of {choices}", what=what, value=shown(value),
                 choices=", ".join(choices))  # fmt: skip
        raise PlanError(text)


def multiple_of(what: str, value: int, divisor_text: str, divisor: int) -> None:
    """Refuse a value that is not a multiple; the error names the nearest nonzero multiples."""
    if value % divisor == 0:
        return
    lower = value // divisor * divisor
    works = (
        _("{lower} or {lower2}", lower=lower, lower2=lower + divisor)
        if lower
        else _("{divisor} or {value}", divisor=divisor, value=2 * divisor)
    )
    text = _("{what} {value} is not a multiple of {divisor_text}; use {works}", what=what,
             value=value, divisor_text=divisor_text, works=works)  # fmt: skip
    raise PlanError(text)


def divides(what: str, parts: int, whole_text: str, whole: int) -> None:
    """Refuse `parts` that do not divide `whole`; the error names the nearest divisors."""
    if whole % parts == 0:
        return
    found = divisors(whole)
    below = [number for number in found if number < parts][-1:]
    above = [number for number in found if number > parts][:1]
    works = " or ".join(str(number) for number in below + above)
    text = _("{what} {parts} does not divide {whole_text} {whole}; use {works}", what=what,
             parts=parts, whole_text=whole_text, whole=whole, works=works)  # fmt: skip
    raise PlanError(text)


def divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def letters(name: str) -> str:
    """Return the name in lower case without punctuation."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def named(what: str, name: object, table: Mapping[str, T]) -> T:
    """Return the entry of a table, whatever its case. An error lists similar names first."""
    names = list(table)
    if isinstance(name, str):
        if name in table:
            return table[name]
        for key, value in table.items():
            if letters(key) == letters(name):
                return value
        like = [*near(name, table), *(key for key in table if letters(name) in letters(key))]
        names.sort(key=lambda key: key not in like)
    text = _("no {what} {name} in the table; use one of {table}", what=what, name=shown(name),
             table=", ".join(names))  # fmt: skip
    raise PlanError(text)
