"""File names with `%` patterns, as sbatch and srun fill them."""

from __future__ import annotations

import os
import re

NO_ARRAY_TASK = "4294967294"  # Slurm's value of %a outside of an array
_SIGN = re.compile(rb"%(\d*)([A-Za-z%])")


def fill(pattern: bytes, values: dict[str, str]) -> bytes:
    """Fill in the patterns. A backslash anywhere disables all patterns and is removed."""
    if b"\\" in pattern:
        return pattern.replace(b"\\", b"")

    def put(match: re.Match[bytes]) -> bytes:
        width, letter = match[1], match[2].decode()
        if letter == "%":
            return b"%"
        if letter not in values:
            return match[0]
        text = values[letter]
        if text.isdigit() and width:
            text = text.zfill(min(int(width), 10))
        return text.encode(errors="surrogateescape")

    return _SIGN.sub(put, pattern)


def default_output(array_job_id: int) -> bytes:
    """Return the output file of a script without --output."""
    return b"slurm-%A_%a.out" if array_job_id else b"slurm-%j.out"


def of_task(
    job_id: int,
    step: str,
    node: str,
    place: int = 0,
    task: int = 0,
    *,
    name: str,
    array: tuple[int, int] = (0, -1),
) -> dict[str, str]:
    """Return the values of the patterns. `place` is the node's number in the step. `array` holds
    the numbers of the array and of the job's task."""
    array_job_id, array_task = array
    return {
        "A": str(array_job_id or job_id),
        "a": str(array_task) if array_task >= 0 else NO_ARRAY_TASK,
        "J": f"{job_id}.{step}" if step.isdigit() else str(job_id),
        "j": str(job_id),
        "N": node,
        "n": str(place),
        "s": step,
        "t": str(task),
        "u": user_name(),
        "x": name,
    }


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def depends_on_task(pattern: bytes) -> bool:
    return b"\\" not in pattern and any(m[2] in (b"t", b"n", b"N") for m in _SIGN.finditer(pattern))


def array_around() -> tuple[int, int]:
    """Return the numbers of the array and task in which this srun runs."""
    numbers = (os.environ.get(f"SLURM_ARRAY_{name}", "") for name in ("JOB_ID", "TASK_ID"))
    job_id, task = (int(text) if text.isdigit() else -1 for text in numbers)
    return (job_id, task) if job_id > 0 else (0, -1)
