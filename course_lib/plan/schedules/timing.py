"""Start and end of each step of a schedule, and the resulting times of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError
from course_lib.plan.schedules.steps import Orders, Step
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["start", "end", "stage", "micro_batch", "chunk", "phase"]
DURATIONS = {"forward": 1.0, "backward": 2.0, "input": 1.0, "weight": 1.0}

# Stage, phase, micro-batch and chunk.
Key = tuple[int, str, int, int]


def timed(
    orders: Orders,
    durations: Mapping[str, float] | None = None,
    send: float = 0.0,
    lasting: Mapping[Key, float] | None = None,
) -> pd.DataFrame:
    """Return a row per step, with `COLUMNS`: a step starts when its stage is free and its input has
    arrived. `durations` are per phase, for all chunks of a stage together (by default, backward
    takes two forwards). `lasting` are known times of single steps; `send` is the time of one
    message."""
    import pandas as pd

    clock = _Clock(orders, {**DURATIONS, **(durations or {})}, send, lasting or {})
    while clock.waiting:
        if not any([clock.run(stage) for stage in range(len(orders))]):
            raise PlanError(clock.deadlock)
    return pd.DataFrame(clock.rows, columns=COLUMNS)


@dataclass
class _Clock:
    orders: Orders
    durations: Mapping[str, float]
    send: float
    lasting: Mapping[Key, float]
    ends: dict[Key, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next = [0] * len(self.orders)
        self.free = [0.0] * len(self.orders)
        self.chunks = 1 + max((step.chunk for order in self.orders for step in order), default=0)

    @property
    def waiting(self) -> list[tuple[int, Step]]:
        """Return the next step of every unfinished stage."""
        places = enumerate(zip(self.orders, self.next, strict=True))
        return [(stage, order[at]) for stage, (order, at) in places if at < len(order)]

    @property
    def deadlock(self) -> str:
        (stage, step), *others = self.waiting
        return _(
            "this schedule never ends: stage {stage} waits for the input of {step}, "
            "and so do {others} others; a real job would hang here",
            stage=stage,
            step=step,
            others=len(others),
        )

    def run(self, stage: int) -> bool:
        """Run all steps of the stage that can run now; return whether there were any."""
        before = self.next[stage]
        for step in self.orders[stage][before:]:
            arrival = self._arrival(stage, step)
            if arrival is None:
                break
            start = max(self.free[stage], arrival)
            key = stage, step.phase, step.micro_batch, step.chunk
            end = start + self.lasting.get(key, self.durations[step.phase] / self.chunks)
            self.free[stage] = self.ends[key] = end
            self.rows.append({"start": start, "end": end, "stage": stage, **vars(step)})
            self.next[stage] += 1
        return self.next[stage] > before

    def _arrival(self, stage: int, step: Step) -> float | None:
        """Return when the input of a step arrives; None if it has not been computed."""
        source = self._source(stage, step)
        if source is None:
            return 0.0
        number, phases, chunk = source
        keys = [(number, phase, step.micro_batch, chunk) for phase in phases]
        ready = [self.ends[key] for key in keys if key in self.ends]
        return max(ready) + self.send * (number != stage) if ready else None

    def _source(self, stage: int, step: Step) -> tuple[int, tuple[str, ...], int] | None:
        """Return stage, possible phases and chunk of the step that produces the input."""
        last, chunk = len(self.orders) - 1, step.chunk
        if step.phase == "weight":
            return stage, ("input",), chunk
        if step.phase == "forward":
            if stage > 0:
                return stage - 1, ("forward",), chunk
            return (last, ("forward",), chunk - 1) if chunk else None
        if stage < last:
            return stage + 1, ("backward", "input"), chunk
        if chunk < self.chunks - 1:
            return 0, ("backward", "input"), chunk + 1
        return stage, ("forward",), chunk


def bubble(table: pd.DataFrame) -> float:
    """Return the idle share of all stages' time, from the first start to the last end."""
    if table.empty:
        return 0.0
    whole = (table["end"].max() - table["start"].min()) * table["stage"].nunique()
    return float(1 - (table["end"] - table["start"]).sum() / whole) if whole else 0.0


@dataclass(frozen=True)
class Moment:
    """State of a pipeline at one time. `busy` has each stage's phase and micro-batch (None: idle),
    `holds` its number of micro-batches between the start of forward and the end of backward."""

    time: float
    busy: tuple[tuple[str, int] | None, ...]
    holds: tuple[int, ...]


def moments(table: pd.DataFrame) -> list[Moment]:
    """Return the state at every start or end of a step, for a table with one chunk per stage."""
    stages = range(int(table["stage"].max()) + 1)
    found = []
    for time in sorted({*table["start"], *table["end"]})[:-1]:
        now = table[(table["start"] <= time) & (table["end"] > time)]
        working = {
            stage: (str(phase), int(number))
            for stage, phase, number in zip(
                now["stage"], now["phase"], now["micro_batch"], strict=True
            )
        }
        begun = table[(table["phase"] == "forward") & (table["start"] <= time)]
        freed = table[table["phase"].isin(["backward", "weight"]) & (table["end"] <= time)]
        holds = (int((begun.stage == s).sum() - (freed.stage == s).sum()) for s in stages)
        found.append(Moment(float(time), tuple(working.get(s) for s in stages), tuple(holds)))
    return found
