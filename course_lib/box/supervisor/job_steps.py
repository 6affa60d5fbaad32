"""The steps of a job, and the sruns that wait for one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from course_lib.box.processes import messages
from course_lib.box.scheduling.step_devices import Busy, DeviceRequest, Impossible, JobDevices
from course_lib.box.scheduling.step_placement import StepRequest, allot
from course_lib.box.supervisor.context import JobContext
from course_lib.box.supervisor.running_step import JOB_IS_OVER, RunningStep


class JobSteps:
    """Tells the end of each to whoever sets `on_end`."""

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
        """False while other steps hold what it needs."""
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
        parts, asked = self.context.parts, message["request"]
        request = StepRequest(**{**asked, "devices": DeviceRequest(**asked["devices"])})
        names, cpus = [part.node for part in parts], [len(part.cpus) for part in parts]
        held, kind = [part.devices for part in parts], self.context.box.device_type
        devices = JobDevices.of(self.context.job, kind, held, self._free_devices())
        busy = frozenset(place for step in self.active for place in step.layout.places)
        layout = allot(request, names, cpus, self._free(), devices, busy)
        holds = not request.overlap
        return RunningStep(self.context, connection, message, layout, holds, self._over)

    def _free(self) -> list[int]:
        free = [len(part.cpus) for part in self.context.parts]
        for step in self.active:
            for place, cpus in zip(step.layout.places, step.layout.cpus, strict=True):
                free[place] -= cpus if step.holds else 0
        return [max(0, number) for number in free]

    def _free_devices(self) -> list[tuple[int, ...]]:
        taken = [
            (place, device)
            for step in self.active
            if step.holds
            for place, devices in zip(step.layout.places, step.layout.devices, strict=True)
            for device in devices
        ]
        return [
            tuple(device for device in part.devices if (place, device) not in taken)
            for place, part in enumerate(self.context.parts)
        ]

    def _over(self, step: RunningStep) -> None:
        """The first that waits gets what is free; who came after it waits on."""
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
        """scancel of one step, or of all of them."""
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
