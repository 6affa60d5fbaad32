"""What a process inherits from its parent, and what it must not: signals, limits, open files."""

from __future__ import annotations

import contextlib
import os
import resource
import signal

from course_lib.box.processes import libc


def reset_signals() -> None:
    """Python ignores two signals that a program expects to be as the kernel gives them."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    if libc.AVAILABLE:
        libc.reset_internal_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def set_limits(limits: dict[str, list[int]]) -> None:
    """Exactly these; an error if that is not allowed to us."""
    for name, (soft, hard) in limits.items():
        kind = getattr(resource, name)
        if resource.getrlimit(kind) != (soft, hard):
            resource.setrlimit(kind, (soft, hard))


def lower_limits(limits: dict[str, tuple[int, int]]) -> None:
    """These as far as they are allowed to us."""
    for name, (soft, wanted) in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        with contextlib.suppress(OSError, ValueError):
            hard = _lower(wanted, resource.getrlimit(kind)[1])
            resource.setrlimit(kind, (_lower(soft, hard), hard))


def _lower(one: int, other: int) -> int:
    """The lower of two limits, of which -1 is the highest."""
    endless = resource.RLIM_INFINITY
    return other if one == endless or (other != endless and other < one) else one


def close_files(kept: set[int]) -> None:
    """All but those; with the standard streams kept, what an exec would close."""
    start = 0
    for number in sorted(kept):
        if start < number:  # closerange(0, 0) closes everything
            os.closerange(start, number)
        start = number + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
