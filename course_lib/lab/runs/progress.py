"""How far a run is: what the panel and the last line show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.lab.queue.states import Status
    from course_lib.lab.runs.outputs import RunOutputs

NOT_SAID_BY_SLURM = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "UNKNOWN")
"""States whose cause is in the log; a cancel or a time limit is its own cause."""


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


class Follower:
    """Reads what a log has grown by; the tables are made only when something came."""

    def __init__(self, run: RunOutputs):
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
    text = f"{run.name}: {status.words}"
    if status.state == "COMPLETED":
        if progress.total:
            text += f", {progress.iteration} of {progress.total} iterations"
        return text
    cause = run.failure if status.state in NOT_SAID_BY_SLURM else None
    return f"{text}: {cause.title}" if cause is not None else text


def details(progress: Progress) -> list[tuple[str, str]]:
    """Label and value of what is known, with units."""
    rows = [
        ("iteration", progress.iteration, "{:.0f}"),
        ("loss", progress.loss, "{:.4f}"),
        ("time per iteration", progress.elapsed_ms, "{:.1f} ms"),
        ("throughput", progress.samples_per_second, "{:.1f} samples/s"),
        ("peak memory of a rank", progress.peak_mib, "{:.0f} MiB"),
    ]
    known = [(label, form.format(value)) for label, value, form in rows if value is not None]
    if progress.total and known:
        known[0] = ("iteration", f"{progress.iteration} of {progress.total}")
    return known
