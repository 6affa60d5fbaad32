"""Requests to the supervisor of a job, and its answers."""

from __future__ import annotations

import os

from course_lib.box import settings

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


# Variable in the environment of every process of a job.
MARKER = "COURSE_BOX_JOB"


def marker(job_id: int, home: str) -> str:
    """Return the value of the variable."""
    return f"{job_id}@{home}"
