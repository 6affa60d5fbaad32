"""Stands in for `python` inside a job: asks for a fork of the warm process, and lives its life.

Runs with -IS, and imports little: every Python command of a job pays for this start.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from typing import NoReturn

from course_lib.box.processes import messages

LIMITS = sorted({name for name in dir(resource) if name[:7] == "RLIMIT_"} - {"RLIMIT_OFILE"})
NOT_PASSED_ON = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP}


def main(real: str, sockets: str) -> NoReturn:
    """`real` is the interpreter's own file, `sockets` the folder of the job."""
    words = list(sys.argv)
    connection, answer = _ask_for_fork(words, sockets)
    if connection is None or "cold" in answer:
        _start_cold(real, words)
    fork = int(answer["pid"])
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # a signal to the group then reaches the program once, and not twice
    _pass_signals_on(fork, os.getsid(0) == os.getpid())
    os.closerange(0, connection.fileno())
    os.closerange(connection.fileno() + 1, 1024)
    connection.settimeout(None)
    try:
        status = int(messages.receive(connection)[0]["status"])
    except (messages.Gone, KeyError):
        os.kill(fork, signal.SIGKILL)
        status = int(signal.SIGKILL)
    _end(status)


def _ask_for_fork(words: list[str], sockets: str) -> tuple[socket.socket | None, messages.Message]:
    own = (signal.SIGPIPE, signal.SIGXFSZ)  # the interpreter ignores these itself
    numbers = [number for number in signal.valid_signals() if number not in own]
    ignored = [int(n) for n in numbers if signal.getsignal(n) == signal.SIG_IGN]
    step = os.environ.get("SLURM_STEP_ID", "batch")
    try:
        connection = messages.connect(f"{sockets}/warm-{step}.sock")
        files = _open_files(connection.fileno())
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        messages.send(connection, _description(words, ignored, files), [folder, *files])
        os.close(folder)
        return connection, messages.receive(connection)[0]
    except (OSError, messages.Gone):
        return None, {}


def _description(words: list[str], ignored: list[int], files: list[int]) -> messages.Message:
    mask = os.umask(0)
    os.umask(mask)
    pid = os.getpid()
    return {
        "pid": pid,
        "words": words,
        "environment": dict(os.environb),
        "ignored": ignored,
        "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "numbers": files,
        "umask": mask,
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": {n: list(resource.getrlimit(getattr(resource, n))) for n in LIMITS},
        "cpus": list(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        "group": os.getpgrp(),
        "session": os.getsid(0),
        "spaces": _spaces(),
    }


def _spaces() -> dict[str, str]:
    if not os.path.isdir("/proc/self/ns"):
        return {}
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "uts", "ipc", "mnt")}


def _open_files(ours: int) -> list[int]:
    """Descriptors that an exec would have kept."""
    found = []
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        number = int(name)
        try:
            if number != ours and (number < 3 or os.get_inheritable(number)):
                os.fstat(number)
                found.append(number)
        except OSError:
            continue
    return sorted(found)


def _start_cold(real: str, words: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(real, words)


def _pass_signals_on(fork: int, leads_session: bool) -> None:
    send = os.killpg if leads_session else os.kill

    def handler(number: int, _: object) -> None:
        try:
            send(fork, number)
        except ProcessLookupError:
            return

    for number in signal.valid_signals() - NOT_PASSED_ON:
        if signal.getsignal(number) is not None:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _end(status: int) -> NoReturn:
    """Ends as the program did, by the same signal if it was one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
