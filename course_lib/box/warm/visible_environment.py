"""Makes a fork of the warm process show the environment of its program to who looks from outside.

/proc/<pid>/environ is the memory in which the kernel left the variables when the process was
started, so a fork goes on showing those of the warm process. The place has a fixed size: what is
new in the program comes first, the short variables before the long, so that as many as possible
find room (a rank's RANK, the job's number); the others are left out.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

STAT = Path("/proc/self/stat")
ENVIRONMENT_START = 47
"""Of the fields behind the process's name; the next one is where it ends (proc(5), 50 and 51)."""


def show_environment(environment: dict[bytes, bytes], stat: Path = STAT) -> None:
    """Best effort: where the kernel does not say the place, nothing is written."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = stat.read_text().rpartition(")")[2].split()
        start, end = (int(field) for field in fields[ENVIRONMENT_START : ENVIRONMENT_START + 2])
        if 0 < start < end:
            old = ctypes.string_at(start, end - start).split(b"\0")
            ctypes.memmove(start, block(environment, set(old), end - start), end - start)


def block(environment: dict[bytes, bytes], old: set[bytes], size: int) -> bytes:
    """What is written into a place of that size: whole variables, each ended by NUL, then NULs."""
    lines = [name + b"=" + value for name, value in environment.items()]
    found = b""
    for line in sorted(lines, key=lambda line: (line in old, len(line))):
        if len(found) + len(line) < size:
            found += line + b"\0"
    return found.ljust(size, b"\0")
