"""What happened: one submitted job and its folder, as a notebook holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.lab.errors import RunFailedError
from course_lib.lab.queue import states
from course_lib.lab.runs.compare import Comparison, compare
from course_lib.lab.runs.outputs import RunOutputs
from course_lib.lab.watching.watch import watch
from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.names import answers_misspelt

if TYPE_CHECKING:
    from course_lib.read import Stacks

NOT_OFFERED = ("look", "pause", "pause_until_look_s", "submitted_unix_s")
"""By completion: the lab asks a run for them, no learner does."""


@answers_misspelt
@explained_methods("run", "require", "wait", "watch", "compare", "stacks", "tail", "cancel")
class Run(RunOutputs):
    """`state` is Slurm's word, `reason` says it in ours; `log`, `memory`, `profile`, `links`,
    `nccl` and `monitor` are what the run left behind, as data."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in NOT_OFFERED]

    def require(self, timeout_s: float | None = None) -> Run:
        """Waits, and raises with the cause if the run did not end well."""
        if self.wait(timeout_s) not in states.ENDED_WELL:
            raise RunFailedError(self.error)
        return self

    def watch(self, timeout_s: float | None = None) -> None:
        """Shows the run until it has ended: a panel in a notebook, lines in a terminal."""
        watch(self, timeout_s)

    def stacks(self, wait_s: float = 10.0) -> Stacks:
        """Where every rank is at this moment; the run goes on."""
        from course_lib.lab.runs.ask_stacks import ask_stacks

        return ask_stacks(self, wait_s)

    def compare(self, other: Run) -> Comparison:
        """Recipe, script and results, field by field: what differs."""
        return compare(self, other)
