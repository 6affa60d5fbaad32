"""One process image, several roles.

The supervisor, the guard, the first process of a job and its step daemons are forks of each
other, so that what one of them has loaded (torch, where it began as a fork of the warm process)
all of them have. A fork never calls deeper into the stack of its parent: it raises `Become`,
which unwinds to `play`, and begins its role there. Nothing between the two may clean up in a
`finally`, as that would clean up for the parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import NoReturn

from course_lib.box.processes import libc
from course_lib.box.processes.log import note

Role = Callable[[], None]


class Become(BaseException):
    """Raised in a forked child: from here on it is `role`."""

    def __init__(self, role: Role) -> None:
        super().__init__()
        self.role = role


def play(role: Role) -> NoReturn:
    """Runs a role, and those that its forks turn into, until the process ends."""
    while True:
        try:
            role()
            os._exit(0)
        except Become as change:
            role = change.role
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        except Exception:
            import traceback

            note(traceback.format_exc())
            os._exit(70)


def fork_into(role: Role) -> int:
    """Number of the child, which plays `role`."""
    pid = os.fork()
    if pid == 0:
        raise Become(role)
    return pid


def die_with_parent(parent: int) -> None:
    """`parent` as the caller numbers it; 0 where it lives outside of the caller's namespace."""
    if libc.AVAILABLE:
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def watch_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def drain(ended: int) -> None:
    """Empties that descriptor, before the children that ended are waited for."""
    with contextlib.suppress(BlockingIOError):
        os.read(ended, 512)


def forget_signals() -> None:
    """Undoes what a role of the parent has set; for a fork that begins its own role."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
