"""A recipe with gaps, from an exercise that is not solved yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.words import _


class Unfinished:
    """A placeholder for a recipe or run with gaps. It runs nothing and says what is missing, so
    that the cells below an unsolved exercise can be run."""

    def __init__(self, name: str, missing: tuple[str, ...]):
        self.name, self.missing = name, missing

    def __repr__(self) -> str:
        return _(
            "{name}: still to fill in: {missing}. Nothing is submitted",
            name=self.name,
            missing=", ".join(self.missing),
        )

    def but(self, **changes: Any) -> Unfinished:
        """Return the same unfinished recipe, because its gaps remain."""
        return self

    def wait(self, timeout_s: float | None = None) -> str:
        return "UNFINISHED"

    def watch(self, timeout_s: float | None = None) -> None:
        print(self)

    def cancel(self) -> None:
        print(self)


def gaps(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of values that are still `...`, including values within lists and tables."""
    return tuple(name for name, value in values.items() if _has_gap(value))


def _has_gap(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_gap(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_gap(item) for item in value)
    return value is ...
