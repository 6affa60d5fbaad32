"""Requests of a command to the warm process. Every command imports this, so it loads fast."""

from __future__ import annotations

import os
import sys
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress

from course_lib.box import settings

LOG = "warm.log"
ANSWER_S = 0.5
# `0` starts every program cold. `force` keeps a warm process even on a machine with GPUs.
SWITCH = "COURSE_BOX_WARM"


def wanted() -> bool:
    choice = os.environ.get(SWITCH, "1")
    if choice == "0":
        return False
    return choice == "force" or not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd")))


def paths() -> tuple[str, str]:
    """Return the paths of the socket and the lock, named after the loaded code. Forks of a changed
    course, or of a different course on this machine, would run different code."""
    named = os.path.join(settings.state_home(), f"warm-{_versions():08x}")
    return f"{named}.sock", f"{named}.lock"


def _versions() -> int:
    """Return a checksum of the packages beside the interpreter and of the box's sources."""
    environment = os.path.dirname(os.path.dirname(sys.executable))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = os.path.join(environment, "lib", version, "site-packages")
    box = os.path.dirname(settings.__file__)
    names = os.listdir(libraries) if os.path.isdir(libraries) else []
    installed = sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
    known = (libraries, installed, sorted(_sources(box)))
    return crc32(repr(known).encode(errors="surrogateescape"))


def _sources(folder: str) -> Iterator[tuple[str, int]]:
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            with suppress(OSError):  # an editor marks an open file with a broken link
                yield entry.path, entry.stat().st_mtime_ns
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry.path)


def supervise(job_id: int) -> int:
    """Ask the warm process to fork a job's supervisor. Return its process id, or 0 on failure."""
    if not wanted():
        return 0
    path, _ = paths()
    if not os.path.exists(path):
        return 0
    from course_lib.box.processes import messages

    try:
        connection = messages.connect(path, ANSWER_S)
    except OSError:
        return 0
    try:
        messages.send(connection, {"do": "supervise", "job": job_id})
        return int(messages.receive(connection)[0].get("started", 0))
    except messages.Gone:
        return 0
    finally:
        connection.close()


def ensure() -> None:
    """Start the warm process if none is alive, and return at once."""
    from course_lib.box.processes import control

    if not wanted() or control.is_locked(paths()[1]):
        return
    log = os.path.join(settings.state_home(), LOG)
    with suppress(OSError):  # too many processes: jobs start cold
        control.spawn("warm", [], log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
