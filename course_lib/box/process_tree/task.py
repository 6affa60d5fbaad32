"""From a fork of a step daemon to the program of a task."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import termios
from dataclasses import dataclass, field
from typing import NoReturn

from course_lib.box.nodes import host_names
from course_lib.box.nodes.namespaces import NodeNamespaces
from course_lib.box.process_tree.job_plan import JobPlan
from course_lib.box.processes import inherited, roles
from course_lib.box.warm import decide, program
from course_lib.box.warm.shims import Shims

FALLBACK_FOLDER = b"/tmp"


@dataclass(frozen=True)
class Order:
    """A process to start. `argv[0]` is looked up in the PATH of `environment`."""

    node: int
    argv: list[bytes]
    environment: dict[bytes, bytes]
    folder: bytes
    umask: int
    limits: dict[str, tuple[int, int]]
    """Soft and hard limit by their name in `resource`; -1 is unlimited."""
    said: list[str] = field(default_factory=list)
    """What slurmstepd says to its standard error before."""
    terminal: bool = False
    """Its streams are a terminal, which it controls (srun --pty)."""


def become_process(
    order: Order, files: list[int], node: NodeNamespaces | None, parent: int, plan: JobPlan
) -> NoReturn:
    """Plays the task; `files` are its standard input, output and error."""
    _move_streams(files)
    signal.set_wakeup_fd(-1)
    roles.die_with_parent(parent)
    _lead_group(order.terminal)
    if node is not None:
        node.enter()
        roles.die_with_parent(parent)
    for text in order.said:
        _complain(text)
    numbered = {**order.environment, b"SLURM_TASK_PID": str(os.getpid()).encode()}
    if plan.separate or plan.names_library:
        environment = host_names.added_to(numbered, plan.names_library, plan.callers)
    else:
        environment = host_names.on_loopback(numbered)
    os.umask(order.umask)
    _enter_folder(order.folder)
    inherited.lower_limits(order.limits)
    inherited.reset_signals()
    if not order.argv[0]:  # Python would not even try
        _complain("execve(): : No such file or directory")
        os._exit(errno.ENOENT)
    path = _find(order.argv[0], environment)
    _start_warm(plan.shims, path, order.argv, environment)
    try:
        os.execve(path, order.argv, environment)
    except OSError as error:
        _complain(f"execve(): {_subject(path, order.argv[0])}: {error.strerror}")
        os._exit(error.errno or 1)


def _lead_group(terminal: bool) -> None:
    """Of processes, so that a signal reaches all that the task starts."""
    if terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    else:
        os.setpgid(0, 0)


def _start_warm(
    shims: Shims, path: bytes, argv: list[bytes], environment: dict[bytes, bytes]
) -> None:
    """Returns where the command has to start cold."""
    command = decide.of_command(shims, path, argv, environment)
    if command is not None and shims.loaded is not None:
        inherited.close_files({0, 1, 2})
        raise program.Program(command, environment, shims.loaded.base_path)


def _subject(path: bytes, asked: bytes) -> str:
    """What was not there: the command, or the interpreter that its first line names."""
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
    prefix = "" if text.startswith("gpu-bind: ") else "slurmstepd: error: "
    with contextlib.suppress(OSError):
        os.write(2, f"{prefix}{text}\n".encode(errors="surrogateescape"))


def _enter_folder(folder: bytes) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        where, why = os.fsdecode(folder), error.strerror
        _complain(f"couldn't chdir to `{where}': {why}: going to /tmp instead")
        os.chdir(FALLBACK_FOLDER)


def _find(command: bytes, environment: dict[bytes, bytes]) -> bytes:
    """Path of a command as execvp would take it; itself if it is nowhere."""
    if b"/" in command:
        return command
    for folder in environment.get(b"PATH", b"/bin:/usr/bin").split(b":"):
        path = os.path.join(folder or b".", command)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return command
