"""What a command asks of the warm process. Imported by every command: keep it light."""

from __future__ import annotations

import os
import sys
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress

from course_lib.box import settings

LOG = "warm.log"
ANSWER_S = 0.5
SWITCH = "COURSE_BOX_WARM"
"""`0` starts everything cold; `force` keeps a warm process also where there are GPUs."""


def wanted() -> bool:
    choice = os.environ.get(SWITCH, "1")
    if choice == "0":
        return False
    return choice == "force" or not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd")))


def paths() -> tuple[str, str]:
    """Its socket and its lock, named after what it has loaded: the forks of a course that was
    changed since, or of another one on this machine, would run other code."""
    named = os.path.join(settings.state_home(), f"warm-{_versions():08x}")
    return f"{named}.sock", f"{named}.lock"


def _versions() -> int:
    """Of the libraries beside the interpreter, which has several names, and of the box."""
    environment = os.path.dirname(os.path.dirname(sys.executable))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = os.path.join(environment, "lib", version, "site-packages")
    box = os.path.dirname(settings.__file__)
    known = (libraries, _changed_ns(libraries), box, max(_sources_changed_ns(box)))
    return crc32(repr(known).encode(errors="surrogateescape"))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _sources_changed_ns(folder: str) -> Iterator[int]:
    yield _changed_ns(folder)
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            yield _changed_ns(entry.path)
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources_changed_ns(entry.path)


def supervise(job_id: int) -> int:
    """Asks the warm process to fork the supervisor of a job; its number, or 0 if it cannot."""
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
    """Starts the warm process where none is alive; returns at once."""
    from course_lib.box.processes import detached

    if not wanted() or detached.is_locked(paths()[1]):
        return
    log = os.path.join(settings.state_home(), LOG)
    with suppress(OSError):  # too many processes: jobs start cold
        detached.spawn_detached("warm", [], log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
