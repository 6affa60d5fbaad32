"""Where the stand-ins of a step's Python commands ask for a fork of the warm process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import select
import signal
import socket
from typing import Any

from course_lib.box.nodes import namespaces
from course_lib.box.processes import inherited, libc, messages, roles
from course_lib.box.processes.log import note
from course_lib.box.warm import decide, program
from course_lib.box.warm.loaded import Loaded

FIRST_FREE = 400
"""Descriptors of a fork are moved above this before they get their numbers."""


def socket_path(folder: str, step: str) -> str:
    return os.path.join(folder, f"warm-{step}.sock")


class ForkService:
    """Lives in the step daemon, whose children the forks are."""

    def __init__(self, folder: str, step: str, loaded: Loaded) -> None:
        self.path = socket_path(folder, step)
        self.loaded = loaded
        self.waiting: dict[int, tuple[socket.socket, int, int]] = {}
        """Descriptor of a connection -> connection, stand-in, fork."""

    def open(self, poll: select.poll) -> bool:
        """False where there is no room for the socket: the step then starts everything cold."""
        self.poll = poll
        try:
            self.listener = messages.listen(self.path)
        except OSError as error:
            note(str(error))
            return False
        poll.register(self.listener, select.POLLIN)
        return True

    def stand_ins(self) -> set[int]:
        return {stand_in for _, stand_in, _ in self.waiting.values()}

    def serve(self, descriptor: int) -> None:
        if descriptor == self.listener.fileno():
            self._accept()
        elif descriptor in self.waiting:  # a stand-in never writes twice: it was killed
            _, _, fork = self._forget(descriptor)
            with contextlib.suppress(OSError):
                os.kill(fork, signal.SIGKILL)

    def ended(self, pid: int, status: int) -> bool:
        """Passes the end of a fork on to its stand-in; False if `pid` is none of ours."""
        for descriptor, (connection, _, fork) in list(self.waiting.items()):
            if fork == pid:
                with contextlib.suppress(messages.Gone):
                    messages.send(connection, {"status": status})
                self._forget(descriptor)
                return True
        return False

    def _forget(self, descriptor: int) -> tuple[socket.socket, int, int]:
        self.poll.unregister(descriptor)
        entry = self.waiting.pop(descriptor)
        entry[0].close()
        return entry

    def _accept(self) -> None:
        caller = messages.accept(self.listener)
        if caller is None:
            return
        connection, asked, files = caller
        command = self._command(asked, files)
        if command is None:
            with contextlib.suppress(messages.Gone):
                messages.send(connection, {"cold": True})
            connection.close()
        else:
            chosen = program.Program(command, asked["environment"], self.loaded.base_path)
            parent = os.getpid()
            pid = roles.fork_into(lambda: _become(connection, asked, files, chosen, parent))
            self.waiting[connection.fileno()] = (connection, asked["pid"], pid)
            self.poll.register(connection, select.POLLIN)
        messages.close_all(files)

    def _command(self, asked: dict[str, Any], files: list[int]) -> decide.PythonCommand | None:
        try:
            os.fchdir(files[0])
        except OSError:
            return None
        try:
            command = decide.of_interpreter(asked["words"], asked["environment"], self.loaded)
        except decide.Cold as reason:
            note(str(reason))
            return None
        finally:
            os.chdir("/")
        return dataclasses.replace(command, ignored_signals=tuple(asked["ignored"]))


def _become(
    connection: socket.socket,
    asked: dict[str, Any],
    files: list[int],
    chosen: program.Program,
    parent: int,
) -> None:
    signal.set_wakeup_fd(-1)
    high = [_raise(file) for file in files[1:]]
    nofile = asked["limits"].pop("RLIMIT_NOFILE")
    try:
        if nofile[1] > resource.getrlimit(resource.RLIMIT_NOFILE)[1]:
            raise ValueError("more open files than we may have")
        _join(asked, files[0], parent)
        inherited.reset_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, asked["mask"])
        messages.send(connection, {"pid": os.getpid()})
    except (OSError, ValueError):
        messages.send(connection, {"cold": True})
        os._exit(0)
    numbers = asked["numbers"]
    os.closerange(0, FIRST_FREE)
    for number, file in zip(numbers, high, strict=True):
        os.dup2(file, number, inheritable=True)
    inherited.close_files(set(numbers))
    inherited.set_limits({"RLIMIT_NOFILE": nofile})  # last, as it may forbid the numbers above
    raise chosen


def _join(asked: dict[str, Any], folder: int, parent: int) -> None:
    """Takes over what a process inherits, from the stand-in instead of from us."""
    if libc.AVAILABLE:
        kinds = namespaces.OF_A_NODE
        spaces = [os.open(f"/proc/{asked['pid']}/ns/{kind}", os.O_RDONLY) for kind in kinds]
        for kind, space in zip(kinds, spaces, strict=True):
            if os.readlink(f"/proc/self/ns/{kind}") != asked["spaces"][kind]:
                libc.setns(space, libc.NAMESPACE_FLAGS[kind])
        namespaces.settle()
    roles.die_with_parent(parent)
    if asked["session"] == asked["pid"]:
        os.setsid()
    elif asked["group"] == asked["pid"]:
        os.setpgid(0, 0)
    else:
        os.setpgid(0, asked["group"])
    os.fchdir(folder)
    os.umask(asked["umask"])
    os.setpriority(os.PRIO_PROCESS, 0, asked["nice"])
    inherited.set_limits(asked["limits"])
    if asked["cpus"] and set(asked["cpus"]) != os.sched_getaffinity(0):
        raise ValueError("other CPUs: the thread pools were sized for all")


def _raise(file: int) -> int:
    import fcntl

    return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
