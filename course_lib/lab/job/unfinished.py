"""A recipe with gaps: what a learner's notebook holds before the exercise is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Unfinished:
    """Stands where a recipe or a run will stand. It runs nothing and says what is missing, so that
    the cells below an unsolved exercise can be run."""

    def __init__(self, name: str, missing: tuple[str, ...]):
        self.name, self.missing = name, missing

    def __repr__(self) -> str:
        return f"{self.name}: still to fill in: {', '.join(self.missing)}; nothing is submitted"

    def but(self, **changes: Any) -> Unfinished:
        """Still with its gaps."""
        return self

    def wait(self, timeout_s: float | None = None) -> str:
        return "UNFINISHED"

    def watch(self, timeout_s: float | None = None) -> None:
        print(self)

    def cancel(self) -> None:
        print(self)


def gaps(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the values that are still `...`, also within lists and tables."""
    return tuple(name for name, value in values.items() if _has_gap(value))


def _has_gap(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_gap(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_gap(item) for item in value)
    return value is ...
