"""Suggestions for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from course_lib.mistakes.errors import NoSuchNameError
from course_lib.words import N_, _

Kind = TypeVar("Kind", bound=type)
MOST_NAMED = 50
LIKE_ENOUGH = 0.7


def near(name: str, names: Iterable[str], most: int = 2) -> list[str]:
    """Return similar names; none if only a few letters match."""
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=LIKE_ENOUGH)
    return [by_lower[other] for other in found]


def instead(name: str, names: Iterable[str], has: str = N_("it has")) -> str:
    """Return `did you mean elapsed_s?`, or list all names if none is similar."""
    names = list(names)
    if found := near(name, names):
        return _("did you mean {found}?", found=" or ".join(found))
    if len(names) > MOST_NAMED:
        return _("{has} {names} others", has=has, names=len(names))
    return f"{has}: {', '.join(names)}" if names else _("{has} none", has=has)


def no_such_name(
    holder: str, name: str, names: Iterable[str], has: str = N_("it offers")
) -> NoReturn:
    if name.startswith("_"):  # a protocol of Python or IPython, not a learner's name
        raise AttributeError(_("{holder} has no {name!r}", holder=holder, name=name))
    also = instead(name, names, has)
    raise NoSuchNameError(
        _("{holder} has no {name!r}; {name2}", holder=holder, name=name, name2=also)
    )


def suggests_similar_names(kind: Kind) -> Kind:
    """Make a class whose instances suggest similar names for unknown attributes."""

    def missing(self: Any, name: str) -> Any:
        if hasattr(kind, name):  # a property of this name failed; show its own error
            return object.__getattribute__(self, name)
        public = [known for known in dir(self) if not known.startswith("_")]
        no_such_name(kind.__name__, name, public, _("it has"))

    setattr(kind, "__getattr__", missing)  # noqa: B010 - a type checker is to go on as before
    return kind
