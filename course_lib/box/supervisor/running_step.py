"""One step: its tasks, the srun that asked for it, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

from course_lib.box.hostlist import compress
from course_lib.box.process_tree.step_daemon import StepDaemon, Usage
from course_lib.box.process_tree.task import Order
from course_lib.box.processes import messages
from course_lib.box.scheduling import device_binding
from course_lib.box.scheduling.step_devices import Impossible
from course_lib.box.scheduling.task_layout import Layout
from course_lib.box.settings import UNLIMITED
from course_lib.box.steps.task_ends import code_of
from course_lib.box.supervisor import limits, script_files
from course_lib.box.supervisor.context import JobContext
from course_lib.box.supervisor.variables import OF_DEVICES, encoded, without

JOB_IS_OVER = "Job/step already completing or completed"
LAST_WORDS_S = 2.0
"""For an srun, once its step has ended with the job; one that is stopped says nothing."""


def cancelled_text(why: str = "") -> str:
    return f"CANCELLED AT {time.strftime('%Y-%m-%dT%H:%M:%S')}{why}"


class RunningStep:
    """`holds`: its CPUs are not given to other steps (not --overlap)."""

    def __init__(
        self,
        context: JobContext,
        connection: socket.socket,
        message: messages.Message,
        layout: Layout,
        holds: bool,
        on_end: Callable[[RunningStep], None],
    ) -> None:
        self.context = context
        self.connection = connection
        self.message = message
        self.layout = layout
        self.holds = holds
        self.on_end = on_end
        self.parts = [context.parts[place] for place in layout.places]
        self.left = layout.total
        self.worst_status = 0
        self.final = ""
        self.announced = False
        self.launched = False
        self.over = False
        self.usage = Usage()
        record = context.writes.begin_step(self._record())
        if record is None:
            raise Impossible(JOB_IS_OVER)
        self.name = record.step

    def _record(self) -> dict[str, object]:
        return {
            "job_id": self.context.job.id,
            "name": self.message["name"],
            "nodes": compress([part.node for part in self.parts]),
            "node_count": len(self.parts),
            "tasks": self.layout.total,
            "cpus": sum(self.layout.cpus),
            "devices": sum(map(len, self.layout.devices)),
            "time_limit_min": self.message.get("time_min") or UNLIMITED,
            "submit_line": self.message["line"],
        }

    def begin(self) -> None:
        loop, line = self.context.loop, self.context.processes.line
        self.daemon = StepDaemon(loop, line, self.name, self._exited, self._gone)
        loop.on_input(self.connection, self._hear)
        names = [part.node for part in self.parts]
        self._tell({"step": self.name, "nodes": names, "tasks": self.layout.tasks})
        if minutes := self.message.get("time_min"):
            loop.after(minutes * 60, self._time_is_up)

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
            self._end_it(cancelled_text())
        elif do == "kill" and not self.context.outcome.decided:
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
        variables, message = self.context.variables, self.message
        label, distribution = message["label"], message["distribution"]
        of_step = variables.step(self.name, self.layout, label, distribution)
        if b"SLURM_JOB_NAME" in message["environment"]:
            del of_step["SLURM_JOB_NAME"]  # srun's -J, or what the script calls it
        start_file = self.context.processes.bash_start_file
        own = script_files.with_commands(message["environment"], start_file)
        shared = {**without(OF_DEVICES, own), **encoded(of_step)}
        has_device = any(self.layout.devices)
        own_limits = limits.of_process(self.context.job, has_device, variables.gpus)
        for task in range(self.layout.total):
            order = self._order(task, shared, own_limits)
            self.daemon.spawn(str(task), order, files[3 * task : 3 * task + 3])

    def _order(self, task: int, shared: dict[bytes, bytes], own_limits: limits.Limits) -> Order:
        message = self.message
        node = self.layout.node_of(task)
        on_node = self.layout.tasks_on(node)
        bound = device_binding.bind(
            message["gpu_bind"], self.layout.devices[node], on_node.index(task), len(on_node)
        )
        variables = self.context.variables
        own = variables.task(self.layout, task, bound.devices)
        if message["gpu_bind"].startswith("per_task:") and bound.devices and len(on_node) > 1:
            own["SLURMD_TRES_BIND"] = f"gpu:{message['gpu_bind']}"
        return Order(
            node=self.layout.places[self.layout.node_of(task)],
            argv=message["argv"],
            environment={**(variables.pace if bound.devices else {}), **shared, **encoded(own)},
            folder=message["folder"],
            umask=message["umask"],
            limits={**message["limits"], **own_limits},
            said=list(bound.said),
            terminal=bool(message["terminal"]) and task == 0,
        )

    def _tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.connection, message)

    def say(self, text: str) -> None:
        """A line of slurmstepd's, which srun prints as if task 0 had written it."""
        self._tell({"say": f"slurmstepd: error: {text}"})

    def _time_is_up(self) -> None:
        if self.left:
            self.final = "TIMEOUT"
            self._end_it(cancelled_text(" DUE TO TIME LIMIT"))

    def _end_it(self, text: str) -> None:
        """By its own wish or limit, while the job goes on."""
        self._stop(text, self_inflicted=True)
        self.context.loop.after(self.context.box.kill_wait_s, self.kill)

    def signal(self, number: int) -> None:
        """From scancel. SIGKILL ends the step at once, SIGTERM stops it, others are passed on."""
        if number == signal.SIGKILL:
            self._announce(cancelled_text())
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
        job = self.context.job
        self.say(f"*** STEP {job.id}.{self.name} ON {self.parts[0].node} {text} ***")
        if not self_inflicted and job.kind == "batch":
            self._tell({"aborted": int(self.context.box.kill_wait_s) + 2})

    def stop(self, text: str) -> None:
        """With its job; whoever calls this sends SIGKILL later."""
        self._stop(text)
        self.final = self.final or "CANCELLED"

    def _stop(self, text: str, self_inflicted: bool = False) -> None:
        self._announce(text, self_inflicted)
        self.daemon.signal(signal.SIGCONT)
        self.daemon.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.daemon.signal(signal.SIGKILL)

    def _exited(self, key: str, status: int, usage: Usage) -> None:
        self.left -= 1
        self.worst_status = max(self.worst_status, status, key=code_of)
        self.usage = self.usage.plus(usage)
        self._tell({"exited": int(key), "status": status})
        if self.left == 0:
            self.daemon.end()

    def _gone(self) -> None:
        """Nothing of the step is left."""
        if self.left and self.context.nodes_are_gone():
            return
        if self.left:  # the daemon itself was killed
            self.worst_status = max(self.worst_status, int(signal.SIGKILL))
            self.final = self.final or "FAILED"
        self.context.finish_step(self.name, self._state(), self.worst_status, self.usage)
        self._tell({"done": True, "lost": self.left})
        if self.context.outcome.decided and self.connection.fileno() >= 0:
            # the end of the script kills its srun, which has yet to say how the tasks ended
            self.context.loop.forget(self.connection)
            self.context.loop.on_input(self.connection, self._hear_last)
            self.context.loop.after(LAST_WORDS_S, self._over)
        else:
            self._over()

    def _hear_last(self) -> None:
        try:
            messages.close_all(messages.receive(self.connection)[1])
        except messages.Gone:
            self._over()

    def _over(self) -> None:
        if not self.over:
            self.over = True
            self._close()
            self.on_end(self)

    def _state(self) -> str:
        status, outcome = self.worst_status, self.context.outcome
        told = self.final if os.WIFSIGNALED(status) or self.final != "CANCELLED" else ""
        if not status or not told or outcome.out_of_memory:
            return outcome.step_state(status)
        return told

    def _close(self) -> None:
        if self.connection.fileno() >= 0:
            self.context.loop.forget(self.connection)
            self.connection.close()
