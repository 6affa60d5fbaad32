"""Forks processes onto the nodes of a job and says how they end.

The first process of a job is a spawner that forks one more spawner for each step (Slurm's
slurmstepd); the parent of a task is its step daemon, which leads its session and adopts its
orphans, so that a step can be ended as a whole.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from typing import Any

from course_lib.box.nodes.namespaces import NodeNamespaces
from course_lib.box.process_tree.job_plan import JobPlan
from course_lib.box.process_tree.task import Order, become_process
from course_lib.box.processes import finding, libc, messages, roles
from course_lib.box.warm.fork_service import ForkService


class Spawner:
    def __init__(self, line: socket.socket, nodes: list[NodeNamespaces], plan: JobPlan) -> None:
        self.line = line
        self.nodes = nodes
        self.plan = plan
        self.children: dict[int, str] = {}
        self.forks: ForkService | None = None

    def run(self) -> None:
        """Until the line closes (the supervisor let go), or `end` is asked for."""
        self.line.settimeout(messages.OWN_PATIENCE_S)
        ended = roles.watch_children()
        poll = select.poll()
        for descriptor in (ended, self.line.fileno()):
            poll.register(descriptor, select.POLLIN)
        if self.forks and not self.forks.open(poll):
            self.forks = None
        while True:
            self._reap()
            for descriptor, _ in poll.poll(1000):
                if descriptor == ended:
                    roles.drain(ended)
                elif descriptor == self.line.fileno():
                    if not self._obey():
                        return
                elif self.forks:
                    self.forks.serve(descriptor)

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
        pid = roles.fork_into(lambda: self._play_daemon(line, step, parent))
        self.children[pid] = f"daemon {step}"
        line.close()

    def _play_daemon(self, line: socket.socket, step: str, parent: int) -> None:
        roles.forget_signals()
        roles.die_with_parent(parent)
        os.setsid()
        self.line.close()
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
            libc.prctl(libc.PR_SET_NAME, b"slurmstepd")
        daemon = Spawner(line, self.nodes, self.plan)
        if loaded := self.plan.shims.loaded:
            daemon.forks = ForkService(self.plan.folder, step, loaded)
        daemon.run()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                key = self.children.pop(pid, None)
                if self.forks and self.forks.ended(pid, status):
                    continue
                if key is not None:
                    used = (usage.ru_utime, usage.ru_stime, usage.ru_maxrss)
                    self._tell({"exited": key, "status": status, "used": used})

    def signal(self, number: int, key: str | None, alone: bool) -> None:
        """To one child, to its process group, or to every process of the step."""
        send = os.kill if alone else os.killpg
        with contextlib.suppress(OSError):
            for pid in [pid for pid, known in self.children.items() if known == key]:
                send(pid, number)
        if key is None:
            stand_ins = self.forks.stand_ins() if self.forks else set()
            left = finding.descendants(os.getpid())
            spared = stand_ins if number != signal.SIGKILL else set()
            finding.kill([pid for pid in left if pid not in spared], number)

    def kill_all(self) -> None:
        """Returns when no process of the step is left."""
        while left := finding.descendants(os.getpid()):
            finding.kill(left)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
        self._reap()
