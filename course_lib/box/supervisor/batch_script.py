"""The batch step of a job, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from course_lib.box.process_tree.step_daemon import StepDaemon, Usage
from course_lib.box.processes.log import note
from course_lib.box.queue import state
from course_lib.box.supervisor import script_files
from course_lib.box.supervisor.context import JobContext
from course_lib.box.supervisor.state_writes import LASTING_S, insist

STEP = "batch"
KEY = "script"
"""Of the script's own process among those of its step."""
IO_FAILED_SIGNAL = 53
"""How slurmd reports that it could not open the output of a script (ExitCode 0:53)."""


class BatchScript:
    """Tells its end to whoever sets `on_exit` (with the wait status) and `on_gone`."""

    on_exit: Callable[[int], None]
    on_gone: Callable[[], None]
    """Nothing that the script left behind runs any more."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.log = -1
        self.status: int | None = None
        self.running = False
        self.finishing = False
        self.usage = Usage()

    def start(self) -> None:
        job, host, loop = self.context.job, self.context.host, self.context.loop
        record = self._record()
        self.context.writes.post(lambda: state.add_step(record))
        try:
            script = self._copied()
            streams = script_files.open_streams(job, host)
        except OSError as error:
            note(f"the script cannot be started: {error}")
            number = IO_FAILED_SIGNAL
            self.context.writes.post(
                lambda: state.finish_step(job.id, STEP, "CANCELLED", 0, number)
            )
            self.on_exit(number)
            return
        self.log = os.dup(streams[2])
        line = self.context.processes.line
        self.daemon = StepDaemon(loop, line, STEP, self._exited, self._gone)
        self.running = True
        start_file = self.context.processes.bash_start_file
        order = script_files.order(job, self.context.variables, script, start_file)
        self.daemon.spawn(KEY, order, streams)
        for descriptor in streams:
            os.close(descriptor)

    def _copied(self) -> str:
        """Path of the script's copy; without room for it the job waits, and need not fail."""
        job, folder = self.context.job, self.context.folder
        path = insist(lambda: script_files.copy_script(job, folder), LASTING_S)
        if path is None:
            raise OSError(f"{folder} is gone")
        return path

    def _record(self) -> dict[str, object]:
        part = self.context.parts[0]
        return {
            "start_s": time.time(),
            "job_id": self.context.job.id,
            "step": STEP,
            "name": STEP,
            "nodes": part.node,
            "cpus": len(part.cpus),
            "devices": len(part.devices),
        }

    def say(self, text: str) -> None:
        """A line of slurmstepd's in the log of the job."""
        if self.log >= 0:
            with contextlib.suppress(OSError):
                os.write(self.log, f"slurmstepd: error: {text}\n".encode())

    def announce(self, text: str) -> None:
        self.say(f"*** JOB {self.context.job.id} ON {self.context.host} {text} ***")

    def signal(self, number: int, alone: bool = False) -> None:
        """To every process of the script, or to the script's own alone."""
        if self.running:
            self.daemon.signal(number, KEY if alone else None, alone)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def _exited(self, key: str, status: int, usage: Usage) -> None:
        self.status, self.usage = status, usage
        self.on_exit(status)

    def finish(self) -> None:
        """Kills what the script left behind, once its steps have ended."""
        if self.running and self.status is not None and not self.finishing:
            self.finishing = True
            self.daemon.end()

    def _gone(self) -> None:
        """The daemon has ended, and with it everything that the script left behind."""
        self.running = False
        daemon_was_killed = self.status is None
        if daemon_was_killed and self.context.nodes_are_gone():
            return
        status = int(signal.SIGKILL) if self.status is None else self.status
        final = self.context.outcome.step_state(status)
        self.context.finish_step(STEP, final, status, self.usage)
        if daemon_was_killed:
            self.on_exit(status)
        self.on_gone()
