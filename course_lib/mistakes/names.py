"""Names that do not exist, answered with those that do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from course_lib.mistakes.errors import NoSuchNameError

Kind = TypeVar("Kind", bound=type)
MOST_NAMED = 50
LIKE_ENOUGH = 0.7


def near(name: str, names: Iterable[str], most: int = 2) -> list[str]:
    """Those that may have been meant; nothing where only a few letters are the same."""
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=LIKE_ENOUGH)
    return [by_lower[other] for other in found]


def instead(name: str, names: Iterable[str], has: str = "it has") -> str:
    """`did you mean elapsed_s?`, or all names where none is near."""
    names = list(names)
    if found := near(name, names):
        return f"did you mean {' or '.join(found)}?"
    if len(names) > MOST_NAMED:
        return f"{has} {len(names)} others"
    return f"{has}: {', '.join(names)}" if names else f"{has} none"


def no_such_name(holder: str, name: str, names: Iterable[str], has: str = "it offers") -> NoReturn:
    if name.startswith("_"):  # a protocol of Python or IPython is asked for, by no learner
        raise AttributeError(f"{holder} has no {name!r}")
    raise NoSuchNameError(f"{holder} has no {name!r}; {instead(name, names, has)}")


def answers_misspelt(kind: Kind) -> Kind:
    """A class whose objects say which attribute may have been meant."""

    def missing(self: Any, name: str) -> Any:
        if hasattr(kind, name):  # a property of this name failed: its own error is wanted
            return object.__getattribute__(self, name)
        public = [known for known in dir(self) if not known.startswith("_")]
        no_such_name(kind.__name__, name, public, "it has")

    setattr(kind, "__getattr__", missing)  # noqa: B010 - a type checker is to go on as before
    return kind
