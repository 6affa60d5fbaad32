"""The two processes between a supervisor and what runs in its job.

supervisor ── guard ── first process of the job ── step daemons ── tasks

The guard holds nothing but the end of both: when the supervisor dies, the kernel kills the
guard; when the guard dies, the kernel kills the first process; when that one dies, the kernel
ends every process of its PID namespace. Where there is no PID namespace (flat mode) the guard
adopts the orphans of the job and ends them itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket

from course_lib.box.nodes import namespaces
from course_lib.box.process_tree.job_plan import JobPlan
from course_lib.box.process_tree.spawner import Spawner
from course_lib.box.processes import finding, job_mark, libc, messages, roles


class Guard:
    """Made by the supervisor; `start` forks, and returns the line to the job's first process."""

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        self.ours, self.line = socket.socketpair()
        self.supervisor = os.getpid()
        self.user = (os.getuid(), os.getgid())

    def start(self) -> tuple[int, socket.socket, bool]:
        """Forks the guard; raises NotStarted with the reason if the nodes cannot be made. Its
        number, the line, and whether every PATH leads to the commands of the box."""
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
        return pid, self.ours, bool(message["covered"])

    def play(self) -> None:
        roles.forget_signals()
        self.ours.close()
        self.line.settimeout(messages.OWN_PATIENCE_S)
        try:
            self._separate()
        except OSError as error:
            messages.send(self.line, {"do": "failed", "why": str(error)})
            return
        roles.die_with_parent(self.supervisor)  # entering a user namespace forgot an earlier call
        guard = 0 if self.plan.separate else os.getpid()
        first = roles.fork_into(lambda: self.play_first(guard))
        self._watch(first)

    def _separate(self) -> None:
        if not self.plan.separate:
            if libc.AVAILABLE:
                libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
            return
        namespaces.leave_for_job()
        messages.send(self.line, {"do": "map"})
        answer, _ = messages.receive(self.line)
        if not answer["mapped"]:
            namespaces.map_self(*self.user)
        libc.prctl(libc.PR_SET_DUMPABLE, 1)

    def _watch(self, first: int) -> None:
        """Until the first process ends, or the supervisor does (where no kernel tells us)."""
        ended = roles.watch_children()
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
        """Flat mode: ends what the job left behind, however often it forked."""
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
        covered = False
        if plan.separate:
            try:
                covered = namespaces.build(nodes, plan.mounts, plan.link_gbit)
            except (OSError, ImportError) as error:
                messages.send(self.line, {"do": "failed", "why": str(error)})
                return
            roles.die_with_parent(guard)
        if libc.AVAILABLE:
            name = job_mark.process_name(plan.job_id, plan.home)
            libc.prctl(libc.PR_SET_NAME, name.encode())
        messages.send(self.line, {"do": "ready", "covered": covered})
        Spawner(self.line, nodes, plan).run()


class NotStarted(Exception):
    """The nodes of a job could not be made."""
