"""Processes of the box seen from outside: their start, their locks, requests to supervisors."""

from __future__ import annotations

import fcntl
import os
import sys

from course_lib.box import devices, settings, state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from course_lib.box.processes import messages

SOCKET = "control.sock"


def path(job_id: int) -> str:
    return os.path.join(settings.job_folder(job_id), SOCKET)


def send(job_id: int, request: messages.Message) -> messages.Message | None:
    """Send a request and return the answer, or None if no supervisor answers."""
    from course_lib.box.processes import messages  # `socket` is most of the start of a command

    try:
        connection = messages.connect(path(job_id))
    except OSError:
        return None
    try:
        messages.send(connection, request)
        return messages.receive(connection)[0]
    except messages.Gone:
        return None
    finally:
        connection.close()


START_S = 60.0


def connect(job_id: int, message: messages.Message) -> socket.socket | None:
    """Connect to a job's supervisor, which may still be making the job's nodes. Return None if the
    job is over."""
    import time

    from course_lib.box.processes import messages
    from course_lib.box.queue import state
    from course_lib.box.queue.records import RUNNING

    deadline = time.monotonic() + START_S
    while True:
        try:
            connection = messages.connect(path(job_id))
            messages.send(connection, message)
            return connection
        except (OSError, messages.Gone):
            job = state.read_job(job_id)
            if job is None or job.state != RUNNING or time.monotonic() > deadline:
                return None
            time.sleep(0.02)


def spawn(role: str, arguments: list[str], log: str, flags: int) -> int:
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
    return {**kept, **devices.outer_limits(os.environ), "COURSE_BOX_HOME": settings.state_home()}


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
