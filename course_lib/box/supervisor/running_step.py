"""One step: its tasks, the srun that asked for it, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from typing import TYPE_CHECKING

from course_lib.box.hostlist import compress
from course_lib.box.node.allot import Impossible
from course_lib.box.node.layout import Layout
from course_lib.box.process_tree.step_daemon import Daemon, Usage
from course_lib.box.processes import messages
from course_lib.box.queue import state
from course_lib.box.steps.task_ends import code_of
from course_lib.box.supervisor import limits, script_files
from course_lib.box.supervisor.state_writes import insist

if TYPE_CHECKING:
    from course_lib.box.supervisor.supervisor import Supervisor


class Step:
    def __init__(
        self,
        supervisor: Supervisor,
        connection: socket.socket,
        message: messages.Message,
        layout: Layout,
        holds: bool,
    ) -> None:
        self.of = supervisor
        self.connection = connection
        self.message = message
        self.layout = layout
        self.holds = holds
        """Its CPUs are not given to other steps (not --overlap)."""
        self.left = layout.total
        self.worst_status = 0
        self.final = ""
        self.announced = False
        self.launched = False
        self.usage: Usage = (0.0, 0.0, 0)
        self.host = supervisor.parts[layout.places[0]].node
        record = insist(lambda: state.add_step(self._record()))
        if record is None:
            raise Impossible("Job/step already completing or completed")
        self.name = record.step

    def _record(self) -> dict[str, object]:
        parts = [self.of.parts[place] for place in self.layout.places]
        return {
            "job_id": self.of.job_id,
            "name": self.message["name"],
            "nodes": compress([part.node for part in parts]),
            "node_count": len(parts),
            "tasks": self.layout.total,
            "cpus": sum(self.layout.cpus),
            "devices": sum(len(part.devices) for part in parts),
            "submit_line": self.message["line"],
        }

    def begin(self) -> None:
        self.daemon = Daemon(self.of.loop, self.of.first, self.name, self._exited, self._gone)
        self.of.loop.on_input(self.connection, self._hear)
        names = [self.of.parts[place].node for place in self.layout.places]
        self._tell({"step": self.name, "nodes": names, "tasks": self.layout.tasks})
        if minutes := self.message.get("time_min"):
            self.of.loop.after(minutes * 60, self._time_is_up)

    def _hear(self) -> None:
        try:
            message, files = messages.receive(self.connection)
        except messages.Gone:
            self._client_died()
            return
        do = message.get("do")
        if do == "launch":
            self._launch(files)
        elif do == "signal":
            self._signal_tasks(int(message["signal"]))
        elif do == "terminate":
            self.stop(self._cancelled_text(), self_inflicted=True)
            self.of.loop.after(self.of.box.kill_wait_s, self.kill)
        elif do == "kill" and not self.of.ending.decided:
            self.signal(signal.SIGKILL)
        messages.close_all(files)

    def _client_died(self) -> None:
        """srun was killed, or could not open a file: nobody hears the tasks any more."""
        self._close()
        self.final = self.final or "CANCELLED"
        if self.launched:
            self.kill()
        else:
            self.left = 0
            self.daemon.end()

    def _launch(self, files: list[int]) -> None:
        self.launched = True
        environment = self.of.environment
        label, distribution = self.message["label"], self.message["distribution"]
        per_task = self.message["request"]["devices_per_task"]
        base = script_files.with_commands(dict(self.message["environment"]))
        shared = environment.step(self.name, self.layout, label, distribution)
        has_device = any(self.of.parts[place].devices for place in self.layout.places)
        own_limits = limits.of_process(self.of.job, has_device, environment.gpus)
        for task in range(self.layout.total):
            node = self.layout.node_of(task)
            added = {**shared, **environment.task(self.layout, task, per_task)}
            order = {
                "node": self.layout.places[node],
                "argv": self.message["argv"],
                "environment": {
                    **base,
                    **{os.fsencode(name): os.fsencode(text) for name, text in added.items()},
                },
                "folder": self.message["folder"],
                "umask": self.message["umask"],
                "limits": {**self.message["limits"], **own_limits},
                "cpus": (),
            }
            self.daemon.spawn(str(task), order, files[3 * task : 3 * task + 3])

    def _tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.connection, message)

    def say(self, text: str) -> None:
        """A line of slurmstepd's, which srun prints as if task 0 had written it."""
        self._tell({"say": f"slurmstepd: error: {text}"})

    def _cancelled_text(self, why: str = "") -> str:
        return f"CANCELLED AT {time.strftime('%Y-%m-%dT%H:%M:%S')}{why}"

    def _time_is_up(self) -> None:
        if self.left:
            self.final = "TIMEOUT"
            self.stop(self._cancelled_text(" DUE TO TIME LIMIT"), self_inflicted=True)
            self.of.loop.after(self.of.box.kill_wait_s, self.kill)

    def signal(self, number: int) -> None:
        """From scancel. SIGKILL ends the step at once, SIGTERM stops it, others are passed on."""
        if number == signal.SIGKILL:
            self._announce(self._cancelled_text())
            self.final = self.final or "CANCELLED"
            self.kill()
        else:
            self._signal_tasks(number)

    def _signal_tasks(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.kill()
        else:
            for task in range(self.layout.total):
                self.daemon.signal(number, str(task))

    def _announce(self, text: str, self_inflicted: bool = False) -> None:
        if self.announced:
            return
        self.announced = True
        self.say(f"*** STEP {self.of.job_id}.{self.name} ON {self.host} {text} ***")
        if not self_inflicted and self.of.job.kind == "batch":
            self._tell({"aborted": int(self.of.box.kill_wait_s) + 2})

    def stop(self, text: str, self_inflicted: bool = False) -> None:
        """SIGCONT and SIGTERM; whoever calls this sends SIGKILL later."""
        self._announce(text, self_inflicted)
        if not self_inflicted:
            self.final = self.final or "CANCELLED"
        self.daemon.signal(signal.SIGCONT)
        self.daemon.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.daemon.signal(signal.SIGKILL)

    def _exited(self, key: str, status: int, usage: Usage) -> None:
        self.left -= 1
        self.worst_status = max(self.worst_status, status, key=code_of)
        so_far = self.usage
        self.usage = (so_far[0] + usage[0], so_far[1] + usage[1], max(so_far[2], usage[2]))
        self._tell({"exited": int(key), "status": status})
        if self.left == 0:
            self.daemon.end()

    def _gone(self) -> None:
        """Nothing of the step is left."""
        if self.left and self.of.nodes_are_gone():
            return
        if self.left:  # the daemon itself was killed
            self.worst_status = max(self.worst_status, int(signal.SIGKILL))
            self.final = self.final or "FAILED"
        status = self.worst_status
        told = self.final if os.WIFSIGNALED(status) or self.final != "CANCELLED" else ""
        if status and self.of.ending.out_of_memory:
            told = "OUT_OF_MEMORY"
        final = (told if status else "") or self.of.ending.step_state(status)
        code, number = self.of.ending.code_and_signal(status)
        used = {
            "max_rss_kib": self.usage[2],
            "cpu_s": self.usage[0] + self.usage[1],
            "user_cpu_s": self.usage[0],
        }
        insist(lambda: state.finish_step(self.of.job_id, self.name, final, code, number, **used))
        self._tell({"done": True, "lost": self.left})
        self._close()
        self.of.steps.over(self)

    def _close(self) -> None:
        if self.connection.fileno() >= 0:
            self.of.loop.forget(self.connection)
            self.connection.close()
