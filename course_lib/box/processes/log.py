"""Lines in the supervisor's log, which must never be the reason that a job ends."""

from __future__ import annotations

import contextlib
import os
import time


def note(text: str) -> None:
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n"
    with contextlib.suppress(OSError):  # the disk may be full
        os.write(2, line.encode(errors="replace"))
