"""The steps of a job: running steps, and sruns that wait for a step."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

from course_lib.box.hostlist import compress
from course_lib.box.processes import messages
from course_lib.box.processes.spawner import StepDaemon, Usage
from course_lib.box.processes.task import Order
from course_lib.box.queue import state
from course_lib.box.scheduling import step_placement
from course_lib.box.scheduling.step_placement import (
    Busy,
    Impossible,
    JobNode,
    Layout,
    StepRequest,
)
from course_lib.box.steps.streams import code_of
from course_lib.box.supervisor import batch_script, limits
from course_lib.box.supervisor.context import LASTING_S, JobContext, retry
from course_lib.box.supervisor.variables import OF_DEVICES, encoded, without

JOB_IS_OVER = "Job/step already completing or completed"
# Time for an srun to report after its step ended with the job. A stopped srun does not report.
LAST_WORDS_S = 2.0


def cancelled_text(why: str = "") -> str:
    return f"CANCELLED AT {time.strftime('%Y-%m-%dT%H:%M:%S')}{why}"


class RunningStep:
    """A step that runs. Without --overlap, it holds its CPUs and devices."""

    def __init__(
        self,
        context: JobContext,
        connection: socket.socket,
        message: messages.Message,
        layout: Layout,
        request: StepRequest,
        on_end: Callable[[RunningStep], None],
    ) -> None:
        self.context = context
        self.connection = connection
        self.message = message
        self.layout = layout
        self.request = request
        self.on_end = on_end
        self.parts = [context.parts[place] for place in layout.places]
        self.total = sum(layout.counts)
        self.left = self.total
        self.worst_status = 0
        self.final = ""
        self.announced = False
        self.launched = False
        self.over = False
        self.usage = Usage()
        record = retry(lambda: state.add_step(self._record()), LASTING_S)
        if record is None:
            raise Impossible(JOB_IS_OVER)
        self.name = record.step

    def _record(self) -> dict[str, object]:
        return {
            "job_id": self.context.job.id,
            "name": self.message["name"],
            "nodes": compress([part.node for part in self.parts]),
            "node_count": len(self.parts),
            "tasks": self.total,
            "cpus": sum(self.layout.cpus),
            "devices": sum(map(len, self.layout.devices)),
        }

    def begin(self) -> None:
        loop, line = self.context.loop, self.context.processes.line
        self.daemon = StepDaemon(loop, line, self.name, self._exited, self._gone)
        loop.on_input(self.connection, self._on_message)
        names = [part.node for part in self.parts]
        self._tell({"step": self.name, "nodes": names, "tasks": self.layout.tasks})

    def _on_message(self) -> None:
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
            self._stop(cancelled_text(), self_inflicted=True)
            self.context.loop.after(self.context.box.kill_wait_s, self.kill)
        elif do == "kill" and not self.context.outcome.decided:
            self.signal(signal.SIGKILL)
        messages.close_all(files)

    def _client_died(self) -> None:
        """End the step, because srun was killed or could not open a file."""
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
            del of_step["SLURM_JOB_NAME"]  # srun's -J, or the name that the script set
        own = batch_script.with_commands(message["environment"], self.context.folder)
        shared = {**without(OF_DEVICES, own), **encoded(of_step)}
        has_device = any(self.layout.devices)
        own_limits = limits.of_process(self.context.job, has_device, variables.gpus)
        for task in range(self.total):
            order = self._order(task, shared, own_limits)
            self.daemon.spawn(str(task), order, files[3 * task : 3 * task + 3])

    def _order(self, task: int, shared: dict[bytes, bytes], own_limits: limits.Limits) -> Order:
        message = self.message
        node = self.layout.node_of(task)
        on_node, per_task = self.layout.tasks[node], self.request.gpus_per_task or 0
        devices = step_placement.devices_of_task(
            self.layout.devices[node], on_node.index(task), len(on_node), per_task
        )
        variables = self.context.variables
        own = variables.task(self.layout, task, devices)
        if per_task and devices and len(on_node) > 1:
            own["SLURMD_TRES_BIND"] = f"gpu:per_task:{per_task}"
        return Order(
            node=self.layout.places[node],
            argv=message["argv"],
            environment={**(variables.pace if devices else {}), **shared, **encoded(own)},
            folder=message["folder"],
            umask=message["umask"],
            limits={**message["limits"], **own_limits},
            terminal=bool(message["terminal"]) and task == 0,
        )

    def _tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.connection, message)

    def say(self, text: str) -> None:
        """Send a line of slurmstepd, which srun prints as if task 0 had written it."""
        self._tell({"say": f"slurmstepd: error: {text}"})

    def signal(self, number: int) -> None:
        """Handle a signal from scancel. SIGKILL ends the step at once; others go to the tasks."""
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
            for task in range(self.total):
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
        """Stop the step together with its job. The caller sends SIGKILL later."""
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
        """Finish the step when its daemon and all its processes are gone."""
        if self.left and self.context.nodes_are_gone():
            return
        if self.left:  # the daemon itself was killed
            self.worst_status = max(self.worst_status, int(signal.SIGKILL))
            self.final = self.final or "FAILED"
        self.context.finish_step(self.name, self._state(), self.worst_status, self.usage)
        self._tell({"done": True, "lost": self.left})
        if self.context.outcome.decided and self.connection.fileno() >= 0:
            # the end of the script kills its srun, which must still report how the tasks ended
            self.context.loop.forget(self.connection)
            self.context.loop.on_input(self.connection, self._on_last_message)
            self.context.loop.after(LAST_WORDS_S, self._over)
        else:
            self._over()

    def _on_last_message(self) -> None:
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


class JobSteps:
    """All steps of a job. Calls `on_end` after each step ends."""

    on_end: Callable[[], None]

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.loop = context.loop
        self.waiting: list[tuple[socket.socket, messages.Message]] = []
        self.active: list[RunningStep] = []
        self.worst_status = 0

    def new_client(self, connection: socket.socket, message: messages.Message) -> None:
        if not self._try(connection, message):
            with contextlib.suppress(messages.Gone):
                messages.send(connection, {"busy": True})
            self._wait(connection, message)

    def _wait(self, connection: socket.socket, message: messages.Message) -> None:
        self.waiting.append((connection, message))
        self.loop.on_input(connection, lambda: self._gave_up(connection))

    def _gave_up(self, connection: socket.socket) -> None:
        self.waiting = [pair for pair in self.waiting if pair[0] is not connection]
        self.loop.forget(connection)
        connection.close()

    def _try(self, connection: socket.socket, message: messages.Message) -> bool:
        """Try to start a step. Return False while other steps hold resources that it needs."""
        try:
            step = self._make(connection, message)
        except Busy:
            return False
        except Impossible as error:
            _refuse(connection, str(error), error.remark)
            return True
        self.active.append(step)
        step.begin()
        return True

    def _make(self, connection: socket.socket, message: messages.Message) -> RunningStep:
        if self.context.outcome.decided:
            raise Impossible(JOB_IS_OVER)
        request = StepRequest(**message["request"])
        nodes = [self._node(place) for place in range(len(self.context.parts))]
        layout = step_placement.allot(request, nodes)
        return RunningStep(self.context, connection, message, layout, request, self._over)

    def _node(self, place: int) -> JobNode:
        """Return a node of the job with what its running steps leave free."""
        part = self.context.parts[place]
        on_it = [step for step in self.active if place in step.layout.places]
        holding = [step for step in on_it if not step.request.overlap]
        numbers = [(step.layout, step.layout.places.index(place)) for step in holding]
        taken = {device for layout, number in numbers for device in layout.devices[number]}
        return JobNode(
            name=part.node,
            cpus=len(part.cpus),
            free_cpus=len(part.cpus) - sum(layout.cpus[number] for layout, number in numbers),
            devices=part.devices,
            free_devices=tuple(device for device in part.devices if device not in taken),
            busy=bool(on_it),
        )

    def _over(self, step: RunningStep) -> None:
        """Start waiting steps in order until one does not fit. Later ones keep waiting."""
        self.active.remove(step)
        self.worst_status = max(self.worst_status, step.worst_status)
        waiting, self.waiting = self.waiting, []
        for position, (connection, message) in enumerate(waiting):
            self.loop.forget(connection)
            if not self._try(connection, message):
                self._wait(connection, message)
                self.waiting += waiting[position + 1 :]
                break
        self.on_end()

    def signal(self, number: int, name: str | None = None) -> None:
        """Signal one step, or all of them, for scancel."""
        for step in list(self.active):
            if name is None or step.name == name:
                step.signal(number)

    def stop_all(self, text: str) -> None:
        waiting, self.waiting = self.waiting, []
        for connection, _ in waiting:
            self.loop.forget(connection)
            _refuse(connection, JOB_IS_OVER)
        for step in list(self.active):
            step.stop(text)

    def kill_all(self) -> None:
        for step in list(self.active):
            step.kill()


def _refuse(connection: socket.socket, why: str, remark: str = "") -> None:
    with contextlib.suppress(messages.Gone):
        messages.send(connection, {"error": why, "remark": remark})
    connection.close()
