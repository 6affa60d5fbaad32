"""The steps of a job, on the side of its supervisor."""

from __future__ import annotations

import contextlib
import signal
import socket
from typing import TYPE_CHECKING

from course_lib.box.node.allot import Busy, Impossible, Request, allot
from course_lib.box.processes import messages
from course_lib.box.supervisor.running_step import Step

if TYPE_CHECKING:
    from course_lib.box.supervisor.supervisor import Supervisor

BATCH, FULL = "batch", "full"


class Steps:
    def __init__(self, supervisor: Supervisor) -> None:
        self.of = supervisor
        self.waiting: list[tuple[socket.socket, messages.Message]] = []
        self.active: list[Step] = []
        self.attached: socket.socket | None = None
        self.worst_status = 0

    def running(self) -> bool:
        return bool(self.active)

    def attach(self, connection: socket.socket) -> None:
        """The srun that this job was made for; the job ends when it goes."""
        self.attached = connection
        self.of.loop.on_input(connection, self._attached_left)

    def _attached_left(self) -> None:
        assert self.attached is not None
        with contextlib.suppress(messages.Gone):
            messages.receive(self.attached)
        self.of.loop.forget(self.attached)
        self.attached.close()
        self.of.ending.last_client_left()

    def new_client(self, connection: socket.socket, message: messages.Message) -> None:
        if not self._try(connection, message):
            with contextlib.suppress(messages.Gone):
                messages.send(connection, {"busy": True})
            self.waiting.append((connection, message))
            self.of.loop.on_input(connection, lambda: self._gave_up(connection))

    def _gave_up(self, connection: socket.socket) -> None:
        self.waiting = [pair for pair in self.waiting if pair[0] is not connection]
        self.of.loop.forget(connection)
        connection.close()

    def _try(self, connection: socket.socket, message: messages.Message) -> bool:
        """False while other steps hold what it needs."""
        parts = self.of.parts
        cpus = [len(part.cpus) for part in parts]
        try:
            if self.of.ending.decided:
                raise Impossible("Job/step already completing or completed")
            request = Request(**message["request"])
            names, devices = [p.node for p in parts], [len(p.devices) for p in parts]
            layout = allot(request, names, cpus, self._free(), devices)
            step = Step(self.of, connection, message, layout, not request.overlap)
        except Busy:
            return False
        except Impossible as error:
            with contextlib.suppress(messages.Gone):
                messages.send(connection, {"error": str(error)})
            connection.close()
            return True
        self.active.append(step)
        step.begin()
        return True

    def _free(self) -> list[int]:
        free = [len(part.cpus) for part in self.of.parts]
        for step in self.active:
            for place, cpus in zip(step.layout.places, step.layout.cpus, strict=True):
                free[place] -= cpus if step.holds else 0
        return [max(0, number) for number in free]

    def over(self, step: Step) -> None:
        self.active.remove(step)
        self.worst_status = max(self.worst_status, step.worst_status)
        waiting, self.waiting = self.waiting, []
        for position, (connection, message) in enumerate(waiting):
            self.of.loop.forget(connection)
            if not self._try(connection, message):
                self.of.loop.on_input(connection, lambda c=connection: self._gave_up(c))  # type: ignore[misc]
                self.waiting += [(connection, message), *waiting[position + 1 :]]
                break
        self.of.ending.check_if_decided()

    def signal(self, request: messages.Message) -> None:
        """scancel --signal, and scancel of a single step."""
        number, to, name = int(request["signal"]), request.get("to"), request.get("step")
        script = self.of.script
        if script and (to in (BATCH, FULL) or name == BATCH):
            script.signal(number, alone=to == BATCH and number != signal.SIGKILL)
        if BATCH in (to, name):
            return
        for step in list(self.active):
            if name is None or step.name == str(name):
                step.signal(number)

    def signal_all(self, number: int) -> None:
        for step in list(self.active):
            step.signal(number)

    def stop_all(self, text: str) -> None:
        for connection, _ in self.waiting:
            self.of.loop.forget(connection)
            with contextlib.suppress(messages.Gone):
                messages.send(connection, {"error": "Job/step already completing or completed"})
            connection.close()
        self.waiting = []
        for step in list(self.active):
            step.stop(text)

    def kill_all(self) -> None:
        for step in list(self.active):
            step.kill()
