"""The way from a fork of a step daemon to the program of a task on a node of the job."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import termios
from dataclasses import dataclass
from typing import NoReturn

from course_lib.box.nodes import host_names
from course_lib.box.nodes.namespaces import NodeNamespaces
from course_lib.box.processes import roles
from course_lib.box.warm import program
from course_lib.box.warm.program import Loaded


@dataclass(frozen=True)
class JobPlan:
    job_id: int
    home: str
    folder: str
    # True with namespaces, False in flat mode.
    separate: bool
    # Name and address, in the order of the allocation.
    nodes: tuple[tuple[str, str], ...]
    link_gbit: float
    # State of the warm process if this job's processes are its forks.
    loaded: Loaded | None = None
    # Library that replaces host name functions in flat mode.
    names_library: str = ""

    @property
    def hosts_file(self) -> str:
        return f"{self.folder}/hosts"


FALLBACK_FOLDER = b"/tmp"


@dataclass(frozen=True)
class Order:
    """A process to start. `argv[0]` is searched along the PATH of `environment`."""

    node: int
    argv: list[bytes]
    environment: dict[bytes, bytes]
    folder: bytes
    umask: int
    # Soft and hard limits by name in `resource`; -1 is unlimited.
    limits: dict[str, tuple[int, int]]
    # The task's streams are a terminal, which the task controls (srun --pty).
    terminal: bool = False


def become_process(
    order: Order, files: list[int], node: NodeNamespaces | None, parent: int, plan: JobPlan
) -> NoReturn:
    """Turn this fork into the task. `files` are its standard input, output and error."""
    _move_streams(files)
    signal.set_wakeup_fd(-1)
    roles.die_with_parent(parent)
    _lead_group(order.terminal)
    if node is not None:
        node.enter()
        roles.die_with_parent(parent)
    numbered = {**order.environment, b"SLURM_TASK_PID": str(os.getpid()).encode()}
    if plan.separate or plan.names_library:
        environment = host_names.with_preload(numbered, plan.names_library)
    else:
        environment = host_names.on_loopback(numbered)
    os.umask(order.umask)
    _enter_folder(order.folder)
    roles.lower_limits(order.limits)
    roles.reset_signals()
    if not order.argv[0]:  # Python would refuse to try this
        _complain("execve(): : No such file or directory")
        os._exit(errno.ENOENT)
    path = _find(order.argv[0], environment)
    if plan.loaded:
        words = [os.path.abspath(os.fsdecode(path)), *map(os.fsdecode, order.argv[1:])]
        if found := program.read(words, environment, plan.loaded):
            program.run(found, plan.loaded)
    try:
        os.execve(path, order.argv, environment)
    except OSError as error:
        _complain(f"execve(): {_subject(path, order.argv[0])}: {error.strerror}")
        os._exit(error.errno or 1)


def _lead_group(terminal: bool) -> None:
    """Lead a process group, so that a signal reaches all processes that the task starts."""
    if terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    else:
        os.setpgid(0, 0)


def _subject(path: bytes, asked: bytes) -> str:
    """Return the name that was not found: the command, or the interpreter in its first line."""
    try:
        with open(path, "rb") as file:
            first = file.readline(300)
    except OSError:
        first = b""
    words = first[2:].split()
    if not first.startswith(b"#!") or not words or not os.access(path, os.X_OK):
        return os.fsdecode(asked)
    return f"bad interpreter({os.fsdecode(words[0])})"


def _move_streams(files: list[int]) -> None:
    high = [os.dup(os.dup(file)) for file in files]
    for target, file in enumerate(high):
        os.dup2(file, target, inheritable=True)


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"slurmstepd: error: {text}\n".encode(errors="surrogateescape"))


def _enter_folder(folder: bytes) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        where, why = os.fsdecode(folder), error.strerror
        _complain(f"couldn't chdir to `{where}': {why}: going to /tmp instead")
        os.chdir(FALLBACK_FOLDER)


def _find(command: bytes, environment: dict[bytes, bytes]) -> bytes:
    """Return the path that execvp would use, or the command itself if it is not found."""
    if b"/" in command:
        return command
    for folder in environment.get(b"PATH", b"/bin:/usr/bin").split(b":"):
        path = os.path.join(folder or b".", command)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return command
