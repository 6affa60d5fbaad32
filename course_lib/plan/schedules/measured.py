"""Measured bubbles: idle time of pipeline stages, from their memory traces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError
from course_lib.plan.schedules.steps import Step
from course_lib.plan.schedules.timing import bubble, timed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["step", "whole_ms", "bubble_percent", "undelayed_percent"]


def bubbles(memory: Iterable[Any]) -> pd.DataFrame:
    """Return the idle time in each recorded step of a run, from the result of `read.memory`.

    `whole_ms` is the time from the start of the first forward or backward pass of any rank to the
    end of the last. `bubble_percent` is the part of that time without passes. `undelayed_percent`
    is the same if each pass, with its measured duration, had begun when its input was ready: the
    cost of unequal passes alone. It is NaN if a stage has several ranks."""
    import pandas as pd

    ranks, rows = list(memory), []
    for step, passes in _passes(ranks).groupby("step"):
        whole_us = float(passes["end"].max() - passes["begin"].min())
        busy_us = float((passes["end"] - passes["begin"]).sum()) / len(ranks)
        waited = 100 * (1 - busy_us / whole_us)
        rows.append((step, whole_us / 1000, waited, 100 * _undelayed(ranks, passes)))
    return pd.DataFrame(rows, columns=COLUMNS)


def _passes(ranks: Sequence[Any]) -> pd.DataFrame:
    """Put the spans of all ranks on one clock, because each trace starts at its own time."""
    import pandas as pd

    first_ns = min((item.start_unix_ns or 0 for item in ranks), default=0)
    parts = [pd.DataFrame(columns=["step", "begin", "end"])]
    for place, item in enumerate(ranks):
        shift_us = ((item.start_unix_ns or 0) - first_ns) / 1000
        part = item.phases[item.phases["phase"].isin(["forward", "backward"])]
        part = part.assign(stage=place, begin=part["begin_us"] + shift_us)
        parts.append(part.assign(end=part["end_us"] + shift_us))
    return pd.concat(parts[1:]) if len(parts) > 1 else parts[0]


def _undelayed(ranks: Sequence[Any], passes: pd.DataFrame) -> float:
    if any(item.layout.get("pipeline", 1) != len(ranks) for item in ranks):
        return math.nan
    orders: list[list[Step]] = []
    lasting = {}
    for stage, (_, part) in enumerate(passes.sort_values("begin").groupby("stage")):
        steps = _steps(part)
        orders.append(steps)
        for step, begin, end in zip(steps, part["begin"], part["end"], strict=True):
            lasting[stage, step.phase, step.micro_batch, step.chunk] = float(end - begin)
    try:
        return bubble(timed(orders, lasting=lasting))
    except PlanError:  # passes are missing in the trace
        return math.nan


def _steps(part: pd.DataFrame) -> list[Step]:
    """Return the steps of one stage in order. Two backward passes of one micro-batch are the two
    halves of its backward."""
    chunks = part["chunk"].fillna(0).astype(int)
    named = list(zip(part["phase"], part["micro_batch"].fillna(0).astype(int), chunks, strict=True))
    count, seen = Counter(named), Counter[tuple[str, int, int]]()
    steps = []
    for key in named:
        seen[key] += 1
        halves = key[0] == "backward" and count[key] == 2
        phase = ("input", "weight")[seen[key] - 1] if halves else key[0]
        steps.append(Step(phase, int(key[1]), int(key[2])))
    return steps
