"""Which line means what: the wordings of PyTorch, NCCL, gloo, Slurm and others, old and new.

A rule has a tier. Tier 0 may be a first cause; tier 1 is what the other ranks see when one of them
is gone or late, so it is a cause only if nothing else is found; tier 2 is what launchers report at
the end; tier 3 is what only warned. The first rule that matches a line decides.
"""

from __future__ import annotations

import re

from course_lib.read.first_causes.rules.cluster import MEMORY, SCHEDULER
from course_lib.read.first_causes.rules.network import NETWORK
from course_lib.read.first_causes.rules.program import LAUNCHER, NUMBERS, PROGRAM

_EXCEPTION = (
    rb"(?:^|[\s:\]>])(?P<type>(?:[A-Za-z_][\w]{0,60}\.){0,8}"
    rb"(?:[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Exit|Failure|Timeout)|StopIteration))"
    rb"(?:: ?(?P<message>.{0,2000}))?$"
)
EXCEPTION = re.compile(_EXCEPTION)
ANY_EXCEPTION = re.compile(
    rb"(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80})(?:: ?(?P<message>.{0,2000}))?$"
)
"""What ends a traceback, whatever its name."""

RULES = (*MEMORY, *SCHEDULER, *NUMBERS, *NETWORK, *PROGRAM, *LAUNCHER)
"""Tried in this order; then the line may still be an exception that no rule names."""
