"""What the clock of the machine says at a moment of a recording.

The profiler counts time by the processor's own counter, and translates it to the machine's clock by
a few looks at both. Where ranks share cores a look may take milliseconds, so that recordings of
several ranks lie milliseconds beside each other: a stage of a pipeline seems to begin before its
input was sent. A range whose name is the clock tells by how much.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from torch.profiler import record_function

NAME = "clock "


def note_the_time() -> None:
    with record_function(f"{NAME}{time.time_ns()}"):
        pass


def ahead_ns(events: Iterable[Any]) -> int:
    """By how much the times of a recording are later than the machine's. Whoever was interrupted
    between looking and noting has noted late: the smallest difference is the best."""
    marks = [event for event in events if event.name.startswith(NAME)]
    return min(
        (mark.start_time_ns - int(mark.name.removeprefix(NAME)) for mark in marks), default=0
    )
