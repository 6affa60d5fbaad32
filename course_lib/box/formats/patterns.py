"""File name patterns: `%j`, `%x`, `%5j` … as Slurm fills them in."""

from __future__ import annotations

import os

from course_lib.box.queue.records import Job

DEFAULT_OUTPUT = "slurm-%j.out"


def expand(pattern: str, values: dict[str, str]) -> str:
    """A number after % pads digits with zeros; a backslash anywhere switches all of it off."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    text, place = "", 0
    while place < len(pattern):
        if pattern[place] != "%":
            text += pattern[place]
            place += 1
            continue
        end = place + 1
        while end < len(pattern) and pattern[end].isdigit():
            end += 1
        letter = pattern[end : end + 1]
        width = min(int(pattern[place + 1 : end] or 0), 10)
        if letter == "%" and end == place + 1:
            text += "%"
        elif letter in values:
            value = values[letter]
            text += value.zfill(width) if value.isdigit() else value
        else:
            text += pattern[place : end + 1]
        place = end + 1
    return text


def values_of(job: Job) -> dict[str, str]:
    """What is known before the job runs; node and task are added where they are known."""
    return {
        "j": str(job.id),
        "J": str(job.id),
        "A": str(job.id),
        "a": "4294967294",
        "u": job.user,
        "x": job.name,
    }


def shown_path(job: Job, pattern: bytes) -> str:
    """As scontrol shows it: absolute, node and task as for the batch script."""
    values = {**values_of(job), "N": job.batch_host, "n": "0", "t": "0", "s": "batch"}
    text = expand(os.fsdecode(pattern) or DEFAULT_OUTPUT, values)
    return text if text.startswith("/") else os.path.join(os.fsdecode(job.work_dir), text)
