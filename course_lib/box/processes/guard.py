"""The two processes between a supervisor and the processes of its job.

    supervisor ── guard ── first process of the job ── step daemons ── tasks

The guard makes the processes end together. When the supervisor dies, the kernel kills the guard.
When the guard dies, the kernel kills the first process. When the first process dies, the kernel
ends every process of its PID namespace. Without a PID namespace (flat mode), the guard adopts the
orphans of the job and ends them itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys

from course_lib.box.nodes import namespaces
from course_lib.box.nodes.namespaces import address
from course_lib.box.processes import finding, libc, messages, roles, task
from course_lib.box.processes.spawner import Spawner
from course_lib.box.processes.task import JobPlan


class Guard:
    """The guard of a job. The supervisor creates it and calls `start`."""

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        self.ours, self.line = socket.socketpair()
        self.supervisor = os.getpid()
        self.user = (os.getuid(), os.getgid())

    def start(self) -> tuple[int, socket.socket]:
        """Fork the guard. Return its process id and the line to the job's first process. Raise
        NotStarted with the reason if the nodes cannot be created."""
        pid = roles.fork_into(self.play)
        self.line.close()
        self.ours.settimeout(messages.OWN_PATIENCE_S)
        try:
            message, _ = messages.receive(self.ours)
            if message.get("do") == "map":
                done = namespaces.map_everyone(pid)
                messages.send(self.ours, {"mapped": done})
                message, _ = messages.receive(self.ours)
        except messages.Gone as error:
            raise NotStarted(f"the job's first process ended ({error})") from error
        if message.get("do") != "ready":
            raise NotStarted(str(message.get("why")))
        return pid, self.ours

    def play(self) -> None:
        roles.forget_signals()
        self.ours.close()
        self.line.settimeout(messages.OWN_PATIENCE_S)
        try:
            self._separate()
        except OSError as error:
            messages.send(self.line, {"do": "failed", "why": str(error)})
            return
        roles.die_with_parent(self.supervisor)  # entering a user namespace cleared an earlier call
        guard = 0 if self.plan.separate else os.getpid()
        first = roles.fork_into(lambda: self.play_first(guard))
        self._watch(first)

    def _separate(self) -> None:
        if not self.plan.separate:
            if libc.AVAILABLE:
                libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
            return
        libc.unshare(libc.NEWUSER | libc.NEWPID)  # the job's first process is forked later
        messages.send(self.line, {"do": "map"})
        answer, _ = messages.receive(self.line)
        if not answer["mapped"]:
            namespaces.map_self(*self.user)
        libc.prctl(libc.PR_SET_DUMPABLE, 1)

    def _watch(self, first: int) -> None:
        """Wait for the end of the first process. Kill it if the supervisor has died."""
        ended = roles.watch()
        while True:
            with contextlib.suppress(ChildProcessError):
                while True:
                    pid, _ = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    if pid == first:
                        return self._sweep()
            if os.getppid() != self.supervisor:
                finding.kill([first])
            select.select([ended], [], [], 1.0)
            roles.drain(ended)

    def _sweep(self) -> None:
        """End all processes that the job left behind in flat mode, even after repeated forks."""
        while not self.plan.separate and (left := finding.descendants(os.getpid())):
            finding.kill(left)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, 0):
                    pass

    def play_first(self, guard: int) -> None:
        roles.forget_signals()
        roles.die_with_parent(guard)
        plan = self.plan
        nodes = [namespaces.NodeNamespaces(name, address) for name, address in plan.nodes]
        if plan.separate:
            try:
                namespaces.build(nodes, plan.hosts_file, plan.link_gbit)
            except (OSError, ImportError) as error:
                messages.send(self.line, {"do": "failed", "why": str(error)})
                return
            roles.die_with_parent(guard)
        if libc.AVAILABLE:
            libc.prctl(libc.PR_SET_NAME, f"box-job-{plan.job_id}".encode())
        messages.send(self.line, {"do": "ready"})
        Spawner(self.line, nodes, plan).run()


class NotStarted(Exception):
    """Error: the nodes of a job could not be created."""


LONGEST_S = 20


def make_nodes() -> None:
    """Try to create nodes, then end this process. The last line of its output is the error."""
    signal.alarm(LONGEST_S)
    # Nothing is written, because the disk may be full: /etc/hosts is mounted over itself
    plan = task.JobPlan(0, "/", "/etc", True, (("node1", address(1)),), 1.0)
    try:
        _, line = Guard(plan).start()
    except NotStarted as error:
        sys.exit(str(error))
    line.close()
    sys.exit()
