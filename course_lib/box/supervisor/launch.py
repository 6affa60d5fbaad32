"""Start, find and bury the supervisor of a job.

Imported by every command, which it must not slow down: what only some of them need is imported
where it is used.
"""

from __future__ import annotations

import fcntl
import os
import sys

from course_lib.box import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from course_lib.box.queue.records import Job

ALIVE = "alive"
PROCESSES = "processes"
STARTING = "starting"
LOG = "supervisor.log"
MARKER = "COURSE_BOX_JOB"
BURIAL_S = 5.0

own_job_id: int | None = None
"""Set in the supervisor: asking for its own lock would lose it."""


def marker(job_id: int, home: str) -> str:
    """Value of COURSE_BOX_JOB in every process of a job."""
    return f"{job_id}@{home}"


def process_name(job_id: int, home: str) -> str:
    """Name of a job's first process, which `inside_job` reads; 15 characters at most."""
    import binascii

    return f"b{job_id}-{binascii.crc32(os.fsencode(home)) & 0xFFFFFF:06x}"[:15]


def start_supervisor(job_id: int) -> None:
    """Returns at once; the supervisor outlives the caller. A second start does no harm."""
    folder = settings.job_folder(job_id)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    from course_lib.box.warm import client

    pid = client.supervise(job_id)
    if not pid:
        client.ensure()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = spawn_detached("supervisor", [str(job_id)], os.path.join(folder, LOG), flags)
    from course_lib.box.processes import finding

    finding.note(os.path.join(folder, STARTING), [pid])


def died_at_its_start(job_id: int) -> bool:
    """Whether the supervisor that was started for a job is gone already, as far as is known."""
    from course_lib.box.processes import finding

    path = os.path.join(settings.job_folder(job_id), STARTING)
    return os.path.exists(path) and not finding.noted(path)


def spawn_detached(role: str, arguments: list[str], log: str, flags: int) -> int:
    """A Python process in a session of its own, without any stream of ours; its number."""
    start = os.path.join(package_root(), "course_lib", "box", "start.py")
    return os.posix_spawn(
        sys.executable,
        [sys.executable, start, package_root(), role, *arguments],
        _environment(),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _environment() -> dict[str, str]:
    """Ours, without what Python and the libraries below torch read when they start."""
    dropped = ("PYTHON", "OMP_", "MKL_", "SLURM_", "SBATCH_", "CUDA_", "LD_", "COURSE_BOX_JOB")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "COURSE_BOX_HOME": settings.state_home()}


def package_root() -> str:
    """The folder that holds `course_lib`."""
    here = os.path.abspath(__file__)
    for _ in range(4):
        here = os.path.dirname(here)
    return here


def is_alive(job: Job) -> bool:
    """Does a process hold the lock of this job's supervisor? True from any namespace."""
    if job.id == own_job_id:
        return True
    return is_locked(os.path.join(settings.job_folder(job.id), ALIVE))


def is_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def inside_job() -> int | None:
    """The job of this box in which the caller runs, also where its environment was cleared."""
    home = settings.state_home()
    job_id, _, of_home = os.environ.get(MARKER, "").partition("@")
    if of_home == home and job_id.isdigit():
        return int(job_id)
    try:
        with open("/proc/1/comm") as file:
            name = file.read().strip()
        number = int(name[1:].partition("-")[0])
    except (OSError, ValueError):
        return None
    return number if name == process_name(number, home) else None


def bury(job: Job) -> None:
    """Ends what is left of a job whose supervisor is dead; nothing remains on return."""
    bury_folder(settings.job_folder(job.id))


def bury_folder(folder: str) -> None:
    """The same, by the folder alone, for a job that the state file no longer knows."""
    import signal
    import time
    from contextlib import suppress

    name = os.path.basename(folder)
    home = os.path.dirname(os.path.dirname(folder))
    deadline = time.monotonic() + BURIAL_S
    while left := _processes(folder, marker(int(name), home) if name.isdigit() else ""):
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _processes(folder: str, mark: str) -> list[int]:
    """Living processes that the supervisor noted, or that carry the job's mark."""
    from course_lib.box.processes import finding

    return sorted(set(finding.noted(os.path.join(folder, PROCESSES))) | finding.marked(mark))
