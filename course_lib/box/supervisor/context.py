"""State shared by the parts of a supervisor, and writes that wait for a full disk."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from course_lib.box import state_folder
from course_lib.box.processes import finding
from course_lib.box.processes.messages import Loop
from course_lib.box.processes.spawner import Usage
from course_lib.box.queue import state
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.queue.store import HomeGone, StateError
from course_lib.box.settings import Settings
from course_lib.box.state_folder import note
from course_lib.box.supervisor.variables import JobVariables

PATIENCE_S = 60.0
# Time-out for actions that somebody waits for but that are not essential.
BRIEF_S = 3.0
# Time-out for actions without which a job cannot start, or whose data exists nowhere else.
LASTING_S = 24 * 3600.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0

Result = TypeVar("Result")


def retry(action: Callable[[], Result], patience_s: float = PATIENCE_S) -> Result | None:
    """Repeat an action until it works. Return None if the disk or the state file failed for too
    long (the log says so), or if the state folder was removed."""
    deadline = time.monotonic() + patience_s
    wait_s = FIRST_WAIT_S
    said = ""
    while True:
        try:
            return action()
        except HomeGone:
            return None
        except (StateError, OSError) as error:
            if not isinstance(error, StateError) and not state_folder.is_failing(error):
                raise
            if str(error) != said:
                said = str(error)
                note(said)
            if time.monotonic() > deadline:
                return None
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)


OUT_OF_MEMORY_CODE = 125
# The script, or the srun that the job was made for, ended by itself.
ENDED = "ended"


@dataclass
class Outcome:
    """The final state and exit code of the job, whether it ends by itself or is cancelled."""

    # Why the job is being ended, as its log says; empty while the job runs.
    decided: str = ""
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
        """Return the final state of a job that ends by itself."""
        if self.out_of_memory:
            return "OUT_OF_MEMORY"
        return "COMPLETED" if status == 0 else "FAILED"

    def step_state(self, status: int) -> str:
        stopped = self.decided and self.decided != ENDED
        if os.WIFSIGNALED(status) and stopped and not self.out_of_memory:
            return "CANCELLED"
        return self.job_state(status)


class JobProcesses(NamedTuple):
    """The processes between the supervisor and the steps, and the line to the first job process."""

    guard: int
    first: int
    line: socket.socket


@dataclass
class JobContext:
    # The job as the queue knows it. It is replaced when the queue changes it.
    job: Job
    parts: list[Allocation]
    box: Settings
    folder: str
    variables: JobVariables
    processes: JobProcesses
    loop: Loop
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def host(self) -> str:
        """Return the node of the script."""
        return self.parts[0].node

    def node_failed(self) -> None:
        """End the job after a node failure. All processes of a namespace have ended already."""
        self.outcome.decide("node failure", "NODE_FAIL")
        self.loop.stop()

    def nodes_are_gone(self) -> bool:
        """Return True if a daemon died together with its nodes. The job has then failed."""
        if not finding.is_ending(self.processes.first):
            return False
        self.node_failed()
        return True

    def finish_step(self, step: str, final: str, status: int, usage: Usage) -> None:
        code, number = self.outcome.code_and_signal(status)
        used = {"max_rss_kib": usage.max_rss_kib, "cpu_s": usage.cpu_s}
        job_id = self.job.id
        retry(lambda: state.finish_step(job_id, step, final, code, number, **used), LASTING_S)
