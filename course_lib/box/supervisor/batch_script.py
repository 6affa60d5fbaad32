"""The batch step of a job, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from course_lib.box.process_tree.step_daemon import Daemon, Usage
from course_lib.box.processes.log import note
from course_lib.box.queue import state
from course_lib.box.supervisor import script_files
from course_lib.box.supervisor.state_writes import insist

if TYPE_CHECKING:
    from course_lib.box.supervisor.supervisor import Supervisor

IO_FAILED_SIGNAL = 53
"""How slurmd reports that it could not open the output of a script (ExitCode 0:53)."""


class BatchScript:
    def __init__(self, supervisor: Supervisor) -> None:
        self.of = supervisor
        self.job = supervisor.job
        self.host = supervisor.parts[0].node
        self.log = -1
        self.status: int | None = None
        self.running = False
        self.finishing = False
        self.usage: Usage = (0.0, 0.0, 0)

    def start(self) -> None:
        of = self.of
        part = of.parts[0]
        record = {
            "job_id": self.job.id,
            "step": "batch",
            "name": "batch",
            "nodes": self.host,
            "cpus": len(part.cpus),
            "devices": len(part.devices),
        }
        insist(lambda: state.add_step(record))
        try:
            script = script_files.copy_script(self.job, of.folder)
            streams = script_files.open_streams(self.job, self.host)
        except OSError as error:
            note(f"the script cannot be started: {error}")
            number = IO_FAILED_SIGNAL
            insist(lambda: state.finish_step(self.job.id, "batch", "CANCELLED", 0, number))
            of.ending.script_ended(number)
            return
        self.log = os.dup(streams[2])
        self.daemon = Daemon(of.loop, of.first, "batch", self._exited, self._gone)
        self.running = True
        self.daemon.spawn(
            script_files.KEY, script_files.order(self.job, of.environment, script), streams
        )
        for descriptor in streams:
            os.close(descriptor)

    def say(self, text: str) -> None:
        """A line of slurmstepd's in the log of the job."""
        if self.log >= 0:
            with contextlib.suppress(OSError):
                os.write(self.log, f"slurmstepd: error: {text}\n".encode())

    def signal(self, number: int, alone: bool = False) -> None:
        """To every process of the script, or to the script's own alone."""
        if self.running:
            self.daemon.signal(number, script_files.KEY if alone else None, alone)

    def kill(self) -> None:
        if self.running:
            self.daemon.signal(signal.SIGKILL)

    def _exited(self, key: str, status: int, usage: Usage) -> None:
        self.status, self.usage = status, usage
        self.of.ending.script_ended(status)

    def finish(self) -> None:
        """Kills what the script left behind, once its steps have ended."""
        if self.running and self.status is not None and not self.finishing:
            self.finishing = True
            self.daemon.end()

    def _gone(self) -> None:
        """The daemon has ended, and with it everything that the script left behind."""
        self.running = False
        daemon_was_killed = self.status is None
        if daemon_was_killed and self.of.nodes_are_gone():
            return
        status = int(signal.SIGKILL) if self.status is None else self.status
        user_s, system_s, max_rss_kib = self.usage
        code, number = self.of.ending.code_and_signal(status)
        used = {
            "max_rss_kib": max_rss_kib,
            "cpu_s": user_s + system_s,
            "user_cpu_s": user_s,
        }
        final = self.of.ending.step_state(status)
        insist(lambda: state.finish_step(self.job.id, "batch", final, code, number, **used))
        if daemon_was_killed:
            self.of.ending.script_ended(status)
        self.of.ending.check()
