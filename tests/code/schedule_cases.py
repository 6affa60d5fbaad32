"""Schedules for tests: name, stages, micro-batches, chunks per stage."""

from __future__ import annotations

import itertools

from parallel.schedules import SCHEDULES

CASES = [
    (name, stages, micro_batches, chunks)
    for name in SCHEDULES
    for stages, rounds, chunks in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2, 3))
    if (name == "interleaved") == (chunks > 1)
    for micro_batches in {stages * rounds, *((1, 5) if name != "interleaved" else ())}
]  # fmt: skip
