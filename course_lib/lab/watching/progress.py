"""How far a run is: what the panel and the last line show."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from course_lib.lab.plain_files import plain
from course_lib.words import told

if TYPE_CHECKING:
    from course_lib.lab.queue.states import Status
    from course_lib.lab.runs.followed import FollowedJob
    from course_lib.lab.runs.outputs import RunOutputs

NOT_SAID_BY_SLURM = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "UNKNOWN")
"""States whose cause is in the log; a cancel or a time limit is its own cause."""
END_OF_LOG_BYTES = 4096
SHOWN_OF_A_LINE = 80
NOT_TEXT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\S ]|[\x00-\x1f\x7f]")
"""What a line of a log does to a terminal and not to its reader."""


@dataclass(frozen=True)
class Progress:
    """Values that the log does not give are None."""

    iteration: int | None = None
    total: int | None = None
    loss: float | None = None
    elapsed_ms: float | None = None
    samples_per_second: float | None = None
    peak_mib: float | None = None

    @property
    def share(self) -> float:
        return self.iteration / self.total if self.iteration and self.total else 0.0


class HasLog(Protocol):
    @property
    def log_file(self) -> Path: ...


class Follower:
    """Reads what a log has grown by; the tables are made only when something came."""

    def __init__(self, run: HasLog):
        from course_lib.read import TrainingReader

        self._run, self._reader = run, TrainingReader()
        self.progress = Progress()

    def look(self) -> Progress:
        try:
            grown = self._reader.poll(self._run.log_file)
        except FileNotFoundError:
            return self.progress
        if grown:
            self.progress = _progress(self._reader.result())
        return self.progress


class Clock:
    """How long a run has waited or run, and how long it will yet; Slurm is asked too seldom for
    seconds to be counted by its answers."""

    def __init__(self, run: FollowedJob):
        self._submitted_unix_s = run.submitted_unix_s
        self._state, self._began_s = "", 0.0
        self._progress, self._came_s = Progress(), 0.0

    def elapsed_s(self, status: Status) -> float:
        """In the queue while it waits, then since the job began, as far as Slurm has said."""
        now_s = time.monotonic()
        if status.waiting:
            return max(0.0, time.time() - self._submitted_unix_s)
        began_s = now_s - (status.elapsed_s or 0.0)
        if status.state != self._state or began_s < self._began_s:
            self._state, self._began_s = status.state, began_s
        return (status.elapsed_s or 0.0) if status.ended else now_s - self._began_s

    def left_s(self, progress: Progress) -> float | None:
        """What the last iterations let one expect; None while there is none to go by."""
        now_s = time.monotonic()
        if progress != self._progress:
            self._progress, self._came_s = progress, now_s
        if progress.iteration is None or not progress.total or progress.elapsed_ms is None:
            return None
        iterations_s = (progress.total - progress.iteration) * progress.elapsed_ms / 1000
        return max(0.0, iterations_s - (now_s - self._came_s))

    def words(self, status: Status, progress: Progress) -> str:
        """`34 s`, and once iterations come `34 s, about 1 min 10 s left`."""
        text = duration(self.elapsed_s(status))
        left_s = None if status.ended or status.waiting else self.left_s(progress)
        return text if left_s is None else f"{text}, about {duration(left_s)} left"


def duration(seconds: float) -> str:
    """`7 s`, `2 min 05 s`, `3 h 10 min`: as much as one wants to know."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def end_of(log: Path, size_bytes: int) -> str:
    """The last bytes of a log, which may be large; nothing where it cannot be read."""
    try:
        with plain(log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - size_bytes))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def last_words(log: Path) -> str:
    """The last line of a log that says something, short enough to stand in another line."""
    text = end_of(log, END_OF_LOG_BYTES)
    lines = [" ".join(NOT_TEXT.sub(" ", line).split()) for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return last if len(last) <= SHOWN_OF_A_LINE else f"{last[: SHOWN_OF_A_LINE - 1]}…"


def doing(run: FollowedJob, status: Status, progress: Progress) -> str:
    """What a running job is at: its iteration, or the last line of its log until it has one."""
    if status.ended or status.waiting:
        return ""
    if progress.iteration is not None:
        total = f" of {progress.total}" if progress.total else ""
        return f"iteration {progress.iteration}{total}"
    return last_words(run.log_file) or "nothing printed yet"


def _progress(log: Any) -> Progress:
    if log.iterations.empty:
        return Progress()
    last = log.iterations.iloc[-1]
    elapsed_ms, batch = value_of(last, "elapsed_ms"), value_of(last, "global_batch_size")
    rate = value_of(last, "samples_per_second")
    if rate is None and elapsed_ms and batch:
        rate = 1000 * batch / elapsed_ms
    peak = None if log.memory.empty else log.memory["max_allocated_mib"].max()
    iteration, total = value_of(last, "iteration"), value_of(last, "total_iterations")
    return Progress(
        iteration=None if iteration is None else int(iteration),
        total=None if total is None else int(total),
        loss=value_of(last, "lm_loss"),
        elapsed_ms=elapsed_ms,
        samples_per_second=rate,
        peak_mib=None if peak is None or peak != peak else float(peak),  # noqa: PLR0124 - NaN
    )


def value_of(row: Any, name: str) -> float | None:
    """Of a row of a log's table; None where the log does not say it."""
    import pandas as pd

    value = row.get(name)
    return None if value is None or pd.isna(value) else float(value)


def last_line(run: RunOutputs, status: Status, progress: Progress) -> str:
    """One line, the same on every machine: no job id, no seconds."""
    text = how_it_stands(run, status, progress)
    cause = run.failure if status.state in NOT_SAID_BY_SLURM else None
    return f"{text}: {cause.title}" if cause is not None else text


def how_it_stands(run: FollowedJob, status: Status, progress: Progress) -> str:
    if status.state == "COMPLETED" and progress.total:
        return f"{run.name}: completed, {progress.iteration} of {progress.total} iterations"
    return f"{run.name}: {status.words}"


def details(progress: Progress) -> list[tuple[str, str]]:
    """Label and value of what is known, with units."""
    rows = [
        (told("iteration"), progress.iteration, "{:.0f}"),
        (told("loss"), progress.loss, "{:.4f}"),
        ("time per iteration", progress.elapsed_ms, "{:.1f} ms"),
        (told("throughput"), progress.samples_per_second, "{:.1f} samples/s"),
        ("peak memory of a rank", progress.peak_mib, "{:.0f} MiB"),
    ]
    known = [(label, form.format(value)) for label, value, form in rows if value is not None]
    if progress.total and known:
        known[0] = (told("iteration"), f"{progress.iteration} of {progress.total}")
    return known
