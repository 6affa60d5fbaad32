"""What the parts of a supervisor share: its job, the job's processes, the loop, the outcome."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import NamedTuple

from course_lib.box.process_tree.step_daemon import Usage
from course_lib.box.processes import finding
from course_lib.box.processes.event_loop import Loop
from course_lib.box.queue import state
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.settings import Settings
from course_lib.box.supervisor.state_writes import LaterWrites
from course_lib.box.supervisor.variables import JobVariables

OUT_OF_MEMORY_CODE = 125
ENDED = "ended"
"""Decided by nobody: the script, or the srun that the job was made for, ended by itself."""


@dataclass
class Outcome:
    """What is known so far of how the job ends."""

    decided: str = ""
    """Why the job is being ended, as its log says it; empty while it runs."""
    state: str = ""
    status: int = 0
    out_of_memory: bool = False

    def decide(self, why: str, state: str) -> None:
        self.decided, self.state = why, state

    def code_and_signal(self, status: int) -> tuple[int, int]:
        if self.out_of_memory:
            return 0, OUT_OF_MEMORY_CODE
        if os.WIFSIGNALED(status):
            return 0, os.WTERMSIG(status)
        return os.WEXITSTATUS(status), 0

    def job_state(self, status: int) -> str:
        """Of a job that ends by itself."""
        if self.out_of_memory:
            return "OUT_OF_MEMORY"
        return "COMPLETED" if status == 0 else "FAILED"

    def step_state(self, status: int) -> str:
        stopped = self.decided and self.decided != ENDED
        if os.WIFSIGNALED(status) and stopped and not self.out_of_memory:
            return "CANCELLED"
        return self.job_state(status)


class JobProcesses(NamedTuple):
    """Those between the supervisor and the steps, and the line to the second of them."""

    guard: int
    first: int
    line: socket.socket
    bash_start_file: str
    """Brings the commands back where a shell has set PATH anew; empty where every PATH has them."""


@dataclass
class JobContext:
    job: Job
    """As the queue knows it; replaced when the queue changes it."""
    parts: list[Allocation]
    box: Settings
    folder: str
    variables: JobVariables
    processes: JobProcesses
    loop: Loop
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self.writes = LaterWrites(self.loop)

    @property
    def host(self) -> str:
        """The node of the script."""
        return self.parts[0].node

    def node_failed(self) -> None:
        """The job ends; where a namespace held its processes, all of them have ended already."""
        self.outcome.decide("node failure", "NODE_FAIL")
        self.loop.stop()

    def nodes_are_gone(self) -> bool:
        """Whether a daemon died with its nodes, and not alone; then the job has failed."""
        if not finding.is_ending(self.processes.first):
            return False
        self.node_failed()
        return True

    def finish_step(self, step: str, final: str, status: int, usage: Usage) -> None:
        code, number = self.outcome.code_and_signal(status)
        used = {
            "max_rss_kib": usage.max_rss_kib,
            "cpu_s": usage.user_s + usage.system_s,
            "user_cpu_s": usage.user_s,
        }
        self.writes.post(lambda: state.finish_step(self.job.id, step, final, code, number, **used))
