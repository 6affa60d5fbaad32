"""A question to the supervisor of a job, and its answer."""

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
    """None where nobody answers: the job is not running, or its supervisor is dead."""
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
