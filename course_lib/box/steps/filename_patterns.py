"""File names with `%` signs, as sbatch and srun fill them."""

from __future__ import annotations

import re

NO_ARRAY_TASK = "4294967294"  # what Slurm writes for %a where there is no array
_SIGN = re.compile(rb"%(\d*)([A-Za-z%])")


def fill(pattern: bytes, values: dict[str, str]) -> bytes:
    """A backslash anywhere switches all signs off and is taken away."""
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


def of_task(
    job_id: int, step: str, node: str, place: int = 0, task: int = 0, *, name: str, user: str
) -> dict[str, str]:
    """Values of the signs; `place` is the number of the node in the step."""
    return {
        "A": str(job_id),
        "a": NO_ARRAY_TASK,
        "J": f"{job_id}.{step}" if step.isdigit() else str(job_id),
        "j": str(job_id),
        "N": node,
        "n": str(place),
        "s": step,
        "t": str(task),
        "u": user,
        "x": name,
    }


def depends_on_task(pattern: bytes) -> bool:
    return b"\\" not in pattern and any(m[2] in (b"t", b"n", b"N") for m in _SIGN.finditer(pattern))
