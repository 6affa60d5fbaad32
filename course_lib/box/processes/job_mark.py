"""How a process shows to which job of which box it belongs."""

from __future__ import annotations

MARKER = "COURSE_BOX_JOB"
"""Variable in the environment of every process of a job."""


def marker(job_id: int, home: str) -> str:
    """Value of the variable."""
    return f"{job_id}@{home}"


def process_name(job_id: int, home: str) -> str:
    """Of a job's first process, also where the environment was cleared; 15 characters at most."""
    import binascii
    import os

    return f"b{job_id}-{binascii.crc32(os.fsencode(home)) & 0xFFFFFF:06x}"[:15]
