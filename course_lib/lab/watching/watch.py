"""Watching a run until it ends: a panel in a notebook, lines in a terminal, one line in a test."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from course_lib.lab.errors import StillRunningError
from course_lib.lab.queue.states import UNKNOWN, Status
from course_lib.lab.watching.audience import in_notebook, is_plain
from course_lib.lab.watching.progress import Follower, Progress, details, last_line
from course_lib.lab.watching.replay import replay
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.lab.runs.outputs import RunOutputs

REFRESH_S = 0.5
STEPS_OF_A_BAR = 10


class View(Protocol):
    def show(self, status: Status, progress: Progress) -> None: ...
    def close(self, line: str, status: Status, progress: Progress) -> None: ...


def watch(run: RunOutputs, timeout_s: float | None = None) -> None:
    follower, view = Follower(run), choose_view(run)
    start_s = time.monotonic()
    try:
        if run.origin and not is_plain():
            replay(run, view)
        status = _follow(run, follower, view, timeout_s)
    except KeyboardInterrupt:
        view.close(
            f"{run.name}: no longer watched, the job goes on; run.watch() comes back to it, "
            "run.cancel() ends it", run.status, follower.progress,
        )  # fmt: skip
        return
    if not status.ended and status.state != UNKNOWN:
        view.close(f"{run.name}: still {status.words}", status, follower.progress)
        raise StillRunningError(
            f"{run.name} (job {run.job_id}) has not ended after {time.monotonic() - start_s:.0f} s"
        )
    progress = follower.look()
    view.close(last_line(run, status, progress), status, progress)


def _follow(run: RunOutputs, follower: Follower, view: View, timeout_s: float | None) -> Status:
    """Looks at the log twice a second and at Slurm as seldom as the poller says."""
    start_s = asked_s = time.monotonic()
    looks, status = 0, run.look(0.2)
    while True:
        view.show(status, follower.look())
        if status.ended or (status.state == UNKNOWN and looks > 3):
            return status
        if timeout_s is not None and time.monotonic() - start_s >= timeout_s:
            return status
        run.pause(REFRESH_S)
        has_news = run.paths.exit_code.exists() or (status.waiting and run.log_file.exists())
        if has_news or time.monotonic() - asked_s >= run.pause_until_look_s(looks + 1):
            looks, asked_s = looks + 1, time.monotonic()
            status = run.look(0.0)


def choose_view(run: RunOutputs) -> View:
    if is_plain():
        return LastLine()
    if in_notebook():
        from course_lib.lab.watching.panel import Panel

        return Panel(run)
    return Lines(run.name)


class LastLine:
    def show(self, status: Status, progress: Progress) -> None:
        pass

    def close(self, line: str, status: Status, progress: Progress) -> None:
        print(told(line))


class Lines:
    """A line whenever the state changes and at every tenth of the way."""

    def __init__(self, name: str):
        self._name, self._shown = name, ("", -1)

    def show(self, status: Status, progress: Progress) -> None:
        now = (status.words, int(progress.share * STEPS_OF_A_BAR))
        if now != self._shown and not status.ended:
            self._shown = now
            rest = ", ".join(f"{told(label)} {told(value)}" for label, value in details(progress))
            words = told(status.words)
            print(f"{self._name}: {words}{f' ({rest})' if rest else ''}", flush=True)

    def close(self, line: str, status: Status, progress: Progress) -> None:
        print(told(line), flush=True)
