"""A disk that is full, or fails: of the folder of the box, that must not end what runs."""

from __future__ import annotations

import os
from errno import EDQUOT, EIO, ENOSPC

FAILURES = (ENOSPC, EDQUOT, EIO)
"""They pass: what met one of them may try again."""


def is_failing(error: OSError) -> bool:
    return error.errno in FAILURES


def log_file(path: str, flags: int) -> str:
    """`path`, or nowhere if it cannot be made: nothing is worth less than the log of a process
    that does not start for want of one."""
    try:
        os.close(os.open(path, flags | os.O_CREAT, 0o600))
    except OSError:
        return os.devnull
    return path
