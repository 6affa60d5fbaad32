"""Watching a run until its end: a panel in a notebook, lines in a terminal, one line in a test."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from course_lib.front_end import in_notebook, interactive, is_plain
from course_lib.lab.errors import StillRunningError
from course_lib.lab.queue.slurm import UNKNOWN, Status
from course_lib.lab.watching.progress import Clock, Follower, Progress, activity, last_line
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.lab.runs.run import Run
    from course_lib.lab.watching.panel import Panel


REFRESH_S = 0.5
# A shorter wait shows nothing.
PATIENCE_S = 1.0
PATIENCE_WITH_UNKNOWN_S = 10.0
CLEAR_LINE = "\r\x1b[K"


def watch(run: Run, timeout_s: float | None = None) -> None:
    """Show a panel in a notebook or a changing line in a terminal. One line remains at the end."""
    view: OneLine | Panel = OneLine(run, patience_s=0.0)
    if interactive():
        from course_lib.lab.watching.panel import Panel

        view = Panel(run)
    try:
        wait(run, timeout_s, view)
    except KeyboardInterrupt as words:
        view.close(str(words))


def wait(run: Run, timeout_s: float | None = None, view: OneLine | Panel | None = None) -> Status:
    """Wait like `watch`, with one line instead of the panel. A short wait shows no line, and
    neither does a test."""
    view = view or OneLine(run, float("inf") if is_plain() else PATIENCE_S)
    try:
        return _follow(run, view, timeout_s)
    except KeyboardInterrupt:
        words = _(
            "{name} is no longer watched, but the job continues. run.watch() shows "
            "it again; run.cancel() ends it",
            name=run.name,
        )
        raise KeyboardInterrupt(words) from None


def _follow(run: Run, view: OneLine | Panel, timeout_s: float | None) -> Status:
    """Read the log twice a second, and query Slurm less and less often."""
    follower = Follower(run.log_file)
    start_s = asked_s = time.monotonic()
    looks, status = 0, run.look(0.2)
    unknown_since_s = None
    while not status.ended:
        now_s = time.monotonic()
        unknown_since_s = (unknown_since_s or now_s) if status.state == UNKNOWN else None
        if unknown_since_s and now_s - unknown_since_s > PATIENCE_WITH_UNKNOWN_S:
            break
        view.show(status, follower.look())
        left_s = REFRESH_S if timeout_s is None else min(REFRESH_S, start_s + timeout_s - now_s)
        if left_s <= 0:
            view.close(_("{name}: still {words}", name=run.name, words=status.words))
            raise StillRunningError(
                _(
                    "{run} has not ended after {timeout_s:g} s: it is {words}. The job continues; "
                    "run.watch() shows it, and run.cancel() ends it",
                    run=run.title,
                    timeout_s=timeout_s,
                    words=status.words,
                )
            )
        run.pause(left_s)
        has_news = run.paths.exit_code.exists() or (status.waiting and run.log_file.exists())
        if has_news or time.monotonic() - asked_s >= run._jobs.pause_s(looks + 1):
            looks, asked_s = looks + 1, time.monotonic()
            status = run.look(0.0)
    view.close(last_line(run, status, follower.look()))
    return status


class OneLine:
    """One line that changes in place and shows the run's progress and times."""

    def __init__(self, run: Run, patience_s: float):
        self._run, self._clock = run, Clock(run)
        self._begin_s = time.monotonic() + patience_s
        self._handle: Any = None
        self._shown = ""

    def show(self, status: Status, progress: Progress) -> None:
        """Show a line such as `dp4: running, iteration 8 of 12 (34 s, about 16 s left)`."""
        if time.monotonic() < self._begin_s:
            return
        at = activity(self._run, status, progress)
        words = f"{status.words}, {at}" if at else status.words
        times = self._clock.words(status, progress)
        self._write(_("{name}: {words} ({times})", name=self._run.name, words=words, times=times))

    def close(self, line: str) -> None:
        if self._shown or time.monotonic() >= self._begin_s:
            self._write(line, is_last=True)

    def _write(self, text: str, *, is_last: bool = False) -> None:
        """Write to one output of a cell, or on one line of a terminal. A file cannot replace a
        line, so it gets only the first and the last. A test gets the last."""
        if is_plain():
            if is_last:
                print(text)
        elif in_notebook():
            from IPython.display import display

            data = {"text/plain": text}
            if self._handle is None:
                self._handle = display(data, raw=True, display_id=True)
            else:
                self._handle.update(data, raw=True)
        elif sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            end = "\n" if is_last else ""
            print(f"{CLEAR_LINE}{text[:width]}", end=end, file=sys.stderr, flush=True)
        elif is_last or not self._shown:
            print(text, file=sys.stderr, flush=True)
        self._shown = text
