"""Mistakes in what was asked: told in one sentence, without a traceback."""

from __future__ import annotations

from collections.abc import Sequence


class AskedError(ValueError):
    """The message says what was asked, what is allowed, and what to do next."""

    exit_code = 1

    @property
    def problems(self) -> list[str]:
        """One line each."""
        return [str(self)]


class ArgumentsError(AskedError):
    """Flags that cannot be as they are: all of them at once."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.found = list(problems)

    @property
    def problems(self) -> list[str]:
        return self.found


class LayoutError(AskedError):
    """A layout that does not fit the devices, the model or the batch."""

    exit_code = 2


class DataError(AskedError):
    """Data that is missing, damaged, or too little."""


class DivergedError(AskedError):
    """Training that has left the range of its numbers: going on would only cost time."""
