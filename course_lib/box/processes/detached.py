"""Processes of the box that outlive the command that starts them, and the locks that they hold."""

from __future__ import annotations

import fcntl
import os
import sys

from course_lib.box import gpus, settings, state_folder


def spawn_detached(role: str, arguments: list[str], log: str, flags: int) -> int:
    """Start a Python process in its own session, without our streams, and return its id."""
    return os.posix_spawn(
        sys.executable,
        [sys.executable, start_file(), package_root(), role, *arguments],
        _environment(),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, state_folder.log_file(log, flags), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def start_file() -> str:
    """Return the start file of every process of the box that is not a command."""
    return os.path.join(package_root(), "course_lib", "box", "start.py")


def package_root() -> str:
    """Return the folder that holds `course_lib`."""
    here = os.path.abspath(__file__)
    for _ in range(4):
        here = os.path.dirname(here)
    return here


def _environment() -> dict[str, str]:
    """Return our environment without variables that Python and libraries of torch read at start."""
    dropped = ("PYTHON", "OMP_", "MKL_", "SLURM_", "SBATCH_", "CUDA_", "LD_", "COURSE_BOX_JOB")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    return {**kept, **gpus.outer_limits(os.environ), "COURSE_BOX_HOME": settings.state_home()}


def is_locked(path: str) -> bool:
    """Return True if another process holds the lock. The caller must not hold it: this check would
    release it.

    If the state is unknown, return True, because a process that seems dead would be killed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
