"""The form of a rule about a line: see `all_rules.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass

ROOT, SECONDARY, REPORT, WARNING = 0, 1, 2, 3
"""A warning is shown among the consequences and never taken for a cause."""


@dataclass(frozen=True)
class Rule:
    """Named groups of `pattern` become details; `unless` keeps harmless relatives out."""

    cause: str
    tier: int
    pattern: re.Pattern[bytes]
    unless: re.Pattern[bytes] | None = None


def rule(cause: str, tier: int, pattern: bytes, unless: bytes | None = None) -> Rule:
    return Rule(cause, tier, re.compile(pattern), re.compile(unless) if unless else None)
