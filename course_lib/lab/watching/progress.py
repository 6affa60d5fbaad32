"""Progress of a run, for the panel and the last line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.workspace import plain
from course_lib.read.prefix import visible
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.lab.queue.slurm import Status
    from course_lib.lab.runs.run import Run

# States whose cause is in the log. The state itself explains a cancelled or timed-out job.
NOT_SAID_BY_SLURM = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "UNKNOWN")
END_OF_LOG_BYTES = 4096
SHOWN_OF_A_LINE = 80


@dataclass(frozen=True)
class Progress:
    """The progress of a run. Values that the log does not give are None."""

    iteration: int | None = None
    total: int | None = None
    loss: float | None = None
    elapsed_ms: float | None = None
    samples_per_second: float | None = None
    peak_mib: float | None = None

    @property
    def at(self) -> str | None:
        """Return `8 of 12`, or `8` if the log does not say how many iterations there are."""
        if self.iteration is None or not self.total:
            return None if self.iteration is None else str(self.iteration)
        return _("{iteration} of {total}", iteration=self.iteration, total=self.total)

    @property
    def share(self) -> float:
        return self.iteration / self.total if self.iteration and self.total else 0.0

    @property
    def left_s(self) -> float | None:
        """Return the time left by the last iteration, or None before the first iteration."""
        if self.iteration is None or not self.total or self.elapsed_ms is None:
            return None
        return max(self.total - self.iteration, 0) * self.elapsed_ms / 1000


class Follower:
    """A reader of a growing log. It makes its tables only if the log has grown."""

    def __init__(self, log_file: Path):
        from course_lib.read import TrainingReader

        self._log_file, self._reader = log_file, TrainingReader()
        self.progress = Progress()

    def look(self) -> Progress:
        try:
            grown = self._reader.poll(self._log_file)
        except FileNotFoundError:
            return self.progress
        if grown:
            self.progress = _progress(self._reader.result())
        return self.progress


class Clock:
    """Time for which a run has waited or run. It continues between the answers of Slurm."""

    def __init__(self, run: Run):
        self._submitted_unix_s, self._began_s = run.submitted_unix_s, float("inf")

    def elapsed_s(self, status: Status) -> float:
        if status.waiting:
            return max(0.0, time.time() - self._submitted_unix_s)
        if status.ended:
            return status.elapsed_s or 0.0
        self._began_s = min(self._began_s, time.monotonic() - (status.elapsed_s or 0.0))
        return time.monotonic() - self._began_s

    def words(self, status: Status, progress: Progress) -> str:
        """Return `34 s`, or `34 s, about 1 min 10 s left` once there are iterations."""
        text = duration(self.elapsed_s(status))
        left_s = None if status.ended or status.waiting else progress.left_s
        return (
            text
            if left_s is None
            else _("{text}, about {left_s} left", text=text, left_s=duration(left_s))
        )


def duration(seconds: float) -> str:
    """Format a duration with limited precision: `7 s`, `2 min 05 s`, `3 h 10 min`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return _("{hours} h {minutes:02d} min", hours=hours, minutes=minutes)
    return _("{minutes} min {rest:02d} s", minutes=minutes, rest=rest) if minutes else f"{rest} s"


def end_of(log: Path, size_bytes: int) -> str:
    """Return the last bytes of a possibly large log for display, or "" if it cannot be read."""
    try:
        with plain(log).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - size_bytes))
            return visible(file.read().decode("utf-8", "replace"))
    except OSError:
        return ""


def last_words(log: Path) -> str:
    """Return the last non-empty line of a log, shortened to fit into another line."""
    text = end_of(log, END_OF_LOG_BYTES)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return last if len(last) <= SHOWN_OF_A_LINE else f"{last[: SHOWN_OF_A_LINE - 1]}…"


def activity(run: Run, status: Status, progress: Progress) -> str:
    """Return a running job's iteration, or before the first one the last line of its log."""
    if status.ended or status.waiting:
        return ""
    if progress.at is not None:
        return _("iteration {at}", at=progress.at)
    return last_words(run.log_file) or _("nothing printed yet")


def _progress(log: Any) -> Progress:
    if log.iterations.empty:
        return Progress()
    last = log.iterations.iloc[-1].dropna()
    elapsed_ms, batch = last.get("elapsed_ms"), last.get("global_batch_size")
    rate = last.get("samples_per_second")
    if rate is None and elapsed_ms and batch:
        rate = 1000 * batch / elapsed_ms
    peaks_mib = [] if log.memory.empty else log.memory["max_allocated_mib"].dropna()
    return Progress(
        iteration=int(last["iteration"]) if "iteration" in last else None,
        total=int(last["total_iterations"]) if "total_iterations" in last else None,
        loss=last.get("lm_loss"),
        elapsed_ms=elapsed_ms,
        samples_per_second=rate,
        peak_mib=max(peaks_mib, default=None),
    )


def last_line(run: Run, status: Status, progress: Progress) -> str:
    """Return a final line that is the same on every machine, without job id and times."""
    if status.state == "COMPLETED" and progress.total:
        return _(
            "{name}: completed, {iteration} of {total} iterations",
            name=run.name,
            iteration=progress.iteration,
            total=progress.total,
        )
    text = f"{run.name}: {status.words}"
    cause = run.failure if status.state in NOT_SAID_BY_SLURM else None
    return f"{text}: {cause.title}" if cause is not None else text


def details(progress: Progress) -> list[tuple[str, str]]:
    """Return label and value, with units, of all known values."""
    rows = [
        (_("iteration"), progress.at, "{}"),
        (_("loss"), progress.loss, "{:.4f}"),
        (_("time per iteration"), progress.elapsed_ms, "{:.1f} ms"),
        (_("throughput"), progress.samples_per_second, "{:.1f} samples/s"),
        (_("peak memory of a rank"), progress.peak_mib, "{:.0f} MiB"),
    ]
    return [(label, form.format(value)) for label, value, form in rows if value is not None]
