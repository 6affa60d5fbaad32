"""Roles of forked processes, with the signals, limits and files that a role sets.

The supervisor, the guard, the first process of a job and its step daemons are forks of each other.
They therefore share all loaded modules, such as torch if the first was a fork of the warm process.
A fork runs its role on top of its parent's stack and then ends. It never returns to its parent's
code.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterable
from typing import NoReturn

from course_lib.box.processes import libc
from course_lib.box.state_folder import note

Role = Callable[[], None]


def play(role: Role) -> NoReturn:
    """Run a role and end the process."""
    code = 70
    try:
        role()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        note(traceback.format_exc())
    finally:
        os._exit(code)


def fork_into(role: Role) -> int:
    """Fork a child that plays `role`, and return its process id."""
    pid = os.fork()
    if pid == 0:
        play(role)
    return pid


def die_with_parent(parent: int) -> None:
    """Make this process die with its parent (0 for a parent outside this namespace)."""
    if libc.AVAILABLE:
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def watch(numbers: Iterable[int] = (signal.SIGCHLD,)) -> int:
    """Return a descriptor from which the numbers of these signals can be read; by default, of the
    signal that a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading


def drain(ended: int) -> None:
    """Empty the descriptor of `watch`, before the caller waits for ended children."""
    with contextlib.suppress(BlockingIOError):
        os.read(ended, 512)


def forget_signals() -> None:
    """Undo the signal settings of the parent's role, in a fork that starts its own role."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def reset_signals() -> None:
    """Reset all signals to the kernel's defaults, because Python ignores two of them."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    if libc.AVAILABLE:
        libc.reset_internal_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def lower_limits(limits: dict[str, tuple[int, int]]) -> None:
    """Set limits as far as this process is allowed to."""
    for name, (soft, wanted) in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        with contextlib.suppress(OSError, ValueError):
            hard = _lower(wanted, resource.getrlimit(kind)[1])
            resource.setrlimit(kind, (_lower(soft, hard), hard))


def _lower(one: int, other: int) -> int:
    """Return the lower of two limits; -1 is the highest."""
    endless = resource.RLIM_INFINITY
    return other if one == endless or (other != endless and other < one) else one


def close_files(kept: set[int]) -> None:
    """Close all files except `kept`. With the standard streams kept, this is like an exec."""
    start = 0
    for number in sorted(kept):
        if start < number:  # closerange(0, 0) closes everything
            os.closerange(start, number)
        start = number + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
