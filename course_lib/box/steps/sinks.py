"""Where the output of a step goes: srun's own streams, one file, or one file per task."""

from __future__ import annotations

import os

from course_lib.box.steps import filename_patterns
from course_lib.box.steps.task_ends import say


class NoFile(Exception):
    """An output or input file could not be opened; it has been said."""


class Sinks:
    """Gives each task its three descriptors, and knows what is to be relayed."""

    def __init__(self, values: list[dict[str, str]], append: bool) -> None:
        self.values = values
        self.flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
        self.shared: dict[bytes, int] = {}

    def target(self, choice: str, default: int, task: int, stream: str) -> tuple[int, bool]:
        """A descriptor to write to, and whether it goes to the task itself (or by srun)."""
        if choice in ("", "all"):
            return default, False
        if choice == "none" or (choice.isdigit() and int(choice) != task):
            return self._open(b"/dev/null", stream), False
        if choice.isdigit():
            return default, False
        pattern = os.fsencode(choice)
        path = filename_patterns.fill(pattern, self.values[task])
        if filename_patterns.depends_on_task(pattern):
            return self._open(path, stream), True
        return self._open(path, stream), False

    def _open(self, path: bytes, stream: str) -> int:
        if path not in self.shared:
            try:
                self.shared[path] = os.open(path, self.flags, 0o666)
            except OSError as error:
                say(f"error: Could not open {stream} file: {error.strerror}")
                raise NoFile from error
        return self.shared[path]


def input_of(choice: str, task: int, values: dict[str, str]) -> int | None:
    """A descriptor to read from; None where srun's own input is passed on."""
    if choice in ("", "all") or (choice.isdigit() and int(choice) == task):
        return None
    path = b"/dev/null"
    if choice != "none" and not choice.isdigit():
        path = filename_patterns.fill(os.fsencode(choice), values)
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        say(f"error: Could not open stdin file: {error.strerror}")
        raise NoFile from error
