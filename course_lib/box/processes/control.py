"""Requests to the supervisor of a job, and its answers."""

from __future__ import annotations

import os

from course_lib.box import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
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


# Variable in the environment of every process of a job.
MARKER = "COURSE_BOX_JOB"


def marker(job_id: int, home: str) -> str:
    """Return the value of the variable."""
    return f"{job_id}@{home}"


def process_name(job_id: int, home: str) -> str:
    """Return the name of a job's first process, which identifies it (15 characters at most)."""
    import binascii
    import os

    return f"b{job_id}-{binascii.crc32(os.fsencode(home)) & 0xFFFFFF:06x}"[:15]
