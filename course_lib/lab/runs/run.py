"""What happened: one submitted job and its folder, as a notebook holds it."""

from __future__ import annotations

from course_lib.lab.errors import RunFailedError
from course_lib.lab.queue import states
from course_lib.lab.runs.compare import Comparison, compare
from course_lib.lab.runs.outputs import RunOutputs
from course_lib.lab.runs.watch import watch


class Run(RunOutputs):
    """`state` is Slurm's word, `reason` says it in ours; `log`, `memory`, `profile`, `links`,
    `nccl` and `monitor` are what the run left behind, as data."""

    def require(self, timeout_s: float | None = None) -> Run:
        """Waits, and raises with the cause if the run did not end well."""
        if self.wait(timeout_s) not in states.ENDED_WELL:
            raise RunFailedError(self.error)
        return self

    def watch(self, timeout_s: float | None = None) -> None:
        """Shows the run until it has ended: a panel in a notebook, lines in a terminal."""
        watch(self, timeout_s)

    def compare(self, other: Run) -> Comparison:
        """Recipe, script and results, field by field: what differs."""
        return compare(self, other)
