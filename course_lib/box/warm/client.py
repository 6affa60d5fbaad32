"""What a command asks of the warm process. Imported by every command: keep it light."""

from __future__ import annotations

import os
from contextlib import suppress

from course_lib.box import settings

SOCKET = "warm.sock"
LOCK = "warm.lock"
LOG = "warm.log"
ANSWER_S = 0.5
SWITCH = "COURSE_BOX_WARM"
"""`0` starts everything cold; `force` keeps a warm process also where there are GPUs."""


def wanted() -> bool:
    choice = os.environ.get(SWITCH, "1")
    if choice == "0":
        return False
    return choice == "force" or not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd")))


def supervise(job_id: int) -> int:
    """Asks the warm process to fork the supervisor of a job; its number, or 0 if it cannot."""
    if not wanted():
        return 0
    path = os.path.join(settings.state_home(), SOCKET)
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

    home = settings.state_home()
    if not wanted() or detached.is_locked(os.path.join(home, LOCK)):
        return
    log = os.path.join(home, LOG)
    with suppress(OSError):  # too many processes: jobs start cold
        detached.spawn_detached("warm", [], log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
