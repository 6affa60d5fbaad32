"""One line that changes in place while somebody waits for a run: what it is at, and since when.

Only who waits for more than a moment sees it; where tests compare outputs, nobody does.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from course_lib.lab.watching.audience import in_notebook, is_plain
from course_lib.lab.watching.progress import Clock, Follower, Progress, doing, how_it_stands
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.lab.queue.states import Status
    from course_lib.lab.runs.followed import FollowedJob

PATIENCE_S = 2.0
EVERY_S_IN_A_FILE = 30.0
CLEAR_LINE = "\r\x1b[K"


class Line(Protocol):
    def write(self, text: str) -> None: ...
    def end(self, text: str) -> None: ...


class SignOfLife:
    """`show` is called again and again while one waits, `close` once, however the waiting ends."""

    def __init__(self, run: FollowedJob):
        self._run, self._start_s = run, time.monotonic()
        self._clock = Clock(run)
        self._status: Status | None = None
        self._follower: Follower | None = None
        self._line: Line | None = None

    def show(self, status: Status) -> None:
        self._status = status
        if status.ended or is_plain() or time.monotonic() - self._start_s < PATIENCE_S:
            return
        if self._line is None:
            self._line = _choose_line()
        self._line.write(self._words(status, self._look()))

    def close(self) -> None:
        if self._line is None or self._status is None:
            return
        status, progress = self._status, self._look()
        stands = told(how_it_stands(self._run, status, progress))
        self._line.end(stands if status.ended else self._words(status, progress))

    def _look(self) -> Progress:
        self._follower = self._follower or Follower(self._run)
        return self._follower.look()

    def _words(self, status: Status, progress: Progress) -> str:
        """`dp4: running, iteration 8 of 12 (34 s, about 16 s left)`."""
        at = doing(self._run, status, progress)
        words = f"{status.words}, {at}" if at else status.words
        return told(f"{self._run.name}: {words} ({self._clock.words(status, progress)})")


def _choose_line() -> Line:
    if in_notebook():
        return InNotebook()
    return OnTerminal() if sys.stderr.isatty() else InFile()


class InNotebook:
    """One output of the cell, replaced each time; what is saved with the notebook is the last."""

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, text: str) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    end = write


class OnTerminal:
    """To stderr, so that what a script prints can go into a file."""

    def write(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"{CLEAR_LINE}{text[:width]}", end="", file=sys.stderr, flush=True)

    def end(self, text: str) -> None:
        print(f"{CLEAR_LINE}{text}", file=sys.stderr, flush=True)


class InFile:
    """A file cannot take a line back, so it gets one now and then."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def write(self, text: str) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S_IN_A_FILE
            self.end(text)

    def end(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
