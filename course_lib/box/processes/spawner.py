"""Starting of processes on the nodes of a job, with reports of their ends.

The first process of a job is a spawner. It forks one more spawner for each step (Slurm's
slurmstepd). The parent of a task is this step daemon. The daemon leads the task's session and
adopts its orphans, so that a step can be ended as a whole. `StepDaemon` represents the daemon in
the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from course_lib.box.nodes.namespaces import NodeNamespaces
from course_lib.box.processes import finding, libc, messages, roles
from course_lib.box.processes.messages import Loop
from course_lib.box.processes.task import JobPlan, Order, become_process


class Spawner:
    def __init__(self, line: socket.socket, nodes: list[NodeNamespaces], plan: JobPlan) -> None:
        self.line = line
        self.nodes = nodes
        self.plan = plan
        self.children: dict[int, str] = {}

    def run(self) -> None:
        """Run until the supervisor closes the line or sends `end`."""
        self.line.settimeout(messages.OWN_PATIENCE_S)
        ended = roles.watch()
        poll = select.poll()
        for descriptor in (ended, self.line.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            self._reap()
            for descriptor, _ in poll.poll(1000):
                if descriptor == ended:
                    roles.drain(ended)
                elif not self._obey():
                    return

    def _obey(self) -> bool:
        try:
            order, files = messages.receive(self.line)
        except messages.Gone:
            self.kill_all()
            return False
        do = order.pop("do")
        if do == "spawn":
            self._spawn(order, files)
        elif do == "daemon":
            self._fork_daemon(order["step"], files[0])
        elif do == "signal":
            self.signal(order["signal"], order["key"], order["alone"])
        elif do == "end":
            self.kill_all()
            self._tell({"ended": True})
            return False
        messages.close_all(files)
        return True

    def _tell(self, message: messages.Message) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.line, message)

    def _spawn(self, order: dict[str, Any], files: list[int]) -> None:
        key = order.pop("key")
        wanted = Order(**order["order"])
        node = self.nodes[wanted.node] if self.plan.separate else None
        parent = os.getpid()
        pid = roles.fork_into(lambda: become_process(wanted, files, node, parent, self.plan))
        self.children[pid] = key
        self._tell({"started": key, "pid": pid})

    def _fork_daemon(self, step: str, descriptor: int) -> None:
        line = socket.socket(fileno=os.dup(descriptor))
        parent = os.getpid()
        pid = roles.fork_into(lambda: self._play_daemon(line, parent))
        self.children[pid] = f"daemon {step}"
        line.close()

    def _play_daemon(self, line: socket.socket, parent: int) -> None:
        roles.forget_signals()
        roles.die_with_parent(parent)
        os.setsid()
        self.line.close()
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
            libc.prctl(libc.PR_SET_NAME, b"slurmstepd")
        Spawner(line, self.nodes, self.plan).run()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                key = self.children.pop(pid, None)
                if key is not None:
                    used = (usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
                    self._tell({"exited": key, "status": status, "used": used})

    def signal(self, number: int, key: str | None, alone: bool) -> None:
        """Send a signal to one child, to its process group, or to every process of the step."""
        send = os.kill if alone else os.killpg
        with contextlib.suppress(OSError):
            for pid in [pid for pid, known in self.children.items() if known == key]:
                send(pid, number)
        if key is None:
            finding.kill(finding.descendants(os.getpid()), number)

    def kill_all(self) -> None:
        """Kill all processes of the step, and return when none is left."""
        while left := finding.descendants(os.getpid()):
            finding.kill(left)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
        self._reap()


class Usage(NamedTuple):
    """Resource usage of an ended process, or of a whole step."""

    cpu_s: float = 0.0
    max_rss_kib: int = 0

    def plus(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, max(self.max_rss_kib, other.max_rss_kib))


class StepDaemon:
    """The supervisor's connection to a step daemon. It calls `on_exit(key, wait status, usage)` for
    each process, and `on_gone()` when the daemon ends."""

    def __init__(
        self,
        loop: Loop,
        first: socket.socket,
        step: str,
        on_exit: Callable[[str, int, Usage], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.on_exit = on_exit
        self.on_gone = on_gone
        self.line, theirs = socket.socketpair()
        self.line.settimeout(messages.OWN_PATIENCE_S)
        messages.send(first, {"do": "daemon", "step": step}, [theirs.fileno()])
        theirs.close()
        loop.on_input(self.line, self._on_message)

    def spawn(self, key: str, order: Order, files: Sequence[int]) -> None:
        self._say({"do": "spawn", "key": key, "order": vars(order)}, files)

    def signal(self, number: int, key: str | None = None, alone: bool = False) -> None:
        """Send a signal to a child's process group, to the child alone, or to the whole step."""
        self._say({"do": "signal", "signal": int(number), "key": key, "alone": alone})

    def end(self) -> None:
        """Kill the remaining processes of the step; `on_gone` follows."""
        self._say({"do": "end"})

    def _say(self, message: messages.Message, files: Sequence[int] = ()) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.line, message, files)

    def _on_message(self) -> None:
        try:
            message, _ = messages.receive(self.line)
        except messages.Gone:
            message = {"ended": True}
        if "exited" in message:
            self.on_exit(message["exited"], message["status"], Usage(*message["used"]))
        elif "ended" in message:
            self.loop.forget(self.line)
            self.line.close()
            self.on_gone()
