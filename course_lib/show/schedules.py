"""Pipeline schedules: the order of work on every stage, and the times that follow from it.

An order is a list of works for each device; nothing here knows of processes. `timed` takes any
order, also the instructions of another program, as long as they name phase and micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

PHASES = {
    "forward": "forward", "fwd": "forward", "f": "forward",
    "backward": "backward", "bwd": "backward", "b": "backward", "full_backward": "backward",
    "input": "input", "backward_input": "input", "backwardinput": "input", "i": "input",
    "weight": "weight", "backward_weight": "weight", "backwardweight": "weight", "w": "weight",
}  # fmt: skip
COLUMNS = ["start", "end", "stage", "micro_batch", "chunk", "phase"]


@dataclass(frozen=True)
class Work:
    phase: str
    micro_batch: int
    chunk: int = 0

    @classmethod
    def of(cls, instruction: Any) -> Work | None:
        """From any object that names a phase and a micro-batch; None for sends, waits, steps."""
        if isinstance(instruction, tuple):
            instruction = cls(*instruction)
        name = getattr(instruction, "phase", None) or getattr(instruction, "kind", None)
        phase = PHASES.get(str(name or type(instruction).__name__).lower())
        micro_batch = getattr(instruction, "micro_batch", None)
        if phase is None or micro_batch is None:
            return None
        return cls(phase, int(micro_batch), int(getattr(instruction, "chunk", 0) or 0))


Orders = list[list[Work]]


def naive(stages: int, micro_batches: int = 1) -> Orders:
    """One micro-batch at a time passes all stages, forward and back, before the next starts."""
    phases = ("forward", "backward")
    return [[Work(p, m) for m in range(micro_batches) for p in phases] for _ in range(stages)]


def gpipe(stages: int, micro_batches: int) -> Orders:
    forward = [Work("forward", m) for m in range(micro_batches)]
    backward = [Work("backward", m) for m in reversed(range(micro_batches))]
    return [[*forward, *backward] for _ in range(stages)]


def one_f_one_b(stages: int, micro_batches: int) -> Orders:
    """Fill, then one forward and one backward in turn: at most `stages` micro-batches in memory."""
    orders = []
    for stage in range(stages):
        filling = min(stages - 1 - stage, micro_batches)
        order = [Work("forward", m) for m in range(filling)]
        for m in range(micro_batches):
            if filling + m < micro_batches:
                order.append(Work("forward", filling + m))
            order.append(Work("backward", m))
        orders.append(order)
    return orders


def interleaved(stages: int, micro_batches: int, chunks: int = 2) -> Orders:
    """Every device holds `chunks` pieces of the model, `stages` layers apart."""
    if micro_batches % stages:
        raise ValueError(
            f"an interleaved schedule needs micro-batches in whole rounds of {stages} stages; "
            f"{micro_batches} is not a multiple, use {-(-micro_batches // stages) * stages}"
        )
    forward = [
        Work("forward", first + m, chunk)
        for first in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for m in range(stages)
    ]
    backward = [Work("backward", work.micro_batch, chunks - 1 - work.chunk) for work in forward]
    orders = []
    for stage in range(stages):
        filling = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, len(forward))
        order = forward[:filling]
        for number, work in enumerate(backward):
            order += forward[filling + number : filling + number + 1]
            order.append(work)
        orders.append(order)
    return orders


def zero_bubble(stages: int, micro_batches: int) -> Orders:
    """1F1B with the backward pass in two: gradients of inputs at once, because the stage before
    waits for them; gradients of weights later, where a stage would stand idle."""
    orders = []
    for stage, plain in enumerate(one_f_one_b(stages, micro_batches)):
        order: list[Work] = []
        late: list[Work] = []
        for work in plain:
            if work.phase == "forward":
                order.append(work)
                continue
            order.append(Work("input", work.micro_batch))
            late.append(Work("weight", work.micro_batch))
            if work.micro_batch >= stage:
                order.append(late.pop(0))
        orders.append(order + late)
    return orders


SCHEDULES: dict[str, Callable[[int, int], Orders]] = {
    "naive": naive,
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
}
DURATIONS = {"forward": 1.0, "backward": 2.0, "input": 1.0, "weight": 1.0}


def orders(name: str, stages: int, micro_batches: int) -> Orders:
    if name not in SCHEDULES:
        raise ValueError(f"no schedule {name!r}; there are {', '.join(SCHEDULES)}")
    if stages < 1 or micro_batches < 1:
        raise ValueError(
            f"a schedule needs stages ≥ 1 and micro-batches ≥ 1, not {stages} and {micro_batches}"
        )
    return SCHEDULES[name](stages, micro_batches)


def timed(
    orders: Sequence[Iterable[Any]] | Mapping[int, Iterable[Any]],
    durations: Mapping[str, float] | None = None,
    send: float = 0.0,
) -> pd.DataFrame:
    """When every work starts and ends: as soon as its device is free and its input has come.

    `durations` of one chunk by phase (a backward takes two forwards unless told otherwise).
    """
    lists = [orders[stage] for stage in sorted(orders)] if isinstance(orders, Mapping) else orders
    queues = [[work for item in each if (work := Work.of(item))] for each in lists]
    last_chunk = max((work.chunk for each in queues for work in each), default=0)
    length = {**DURATIONS, **(durations or {})}
    free, done, place = [0.0] * len(queues), dict[Any, float](), [0] * len(queues)
    rows: list[dict[str, Any]] = []
    while any(place[stage] < len(queue) for stage, queue in enumerate(queues)):
        moved = False
        for stage, queue in enumerate(queues):
            while place[stage] < len(queue):
                work = queue[place[stage]]
                needed = _needs(work, stage, len(queues), last_chunk)
                if not any(key in done for key in needed) and needed:
                    break
                ready = [done[key] + send * (key[0] != stage) for key in needed if key in done]
                start = max([free[stage], *ready])
                free[stage] = end = start + length[work.phase] / (last_chunk + 1)
                done[stage, work.phase, work.micro_batch, work.chunk] = end
                rows.append({"start": start, "end": end, "stage": stage, **vars(work)})
                place[stage] += 1
                moved = True
        if not moved:
            stuck = [(s, q[place[s]]) for s, q in enumerate(queues) if place[s] < len(q)]
            raise ValueError(
                f"this schedule never ends: stage {stuck[0][0]} waits for the input of "
                f"{stuck[0][1]}, and so do {len(stuck) - 1} others; a real job would hang here"
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def _needs(work: Work, stage: int, stages: int, last_chunk: int) -> list[Any]:
    """Keys of which one must be done first (a backward may be called backward or input)."""
    m, chunk = work.micro_batch, work.chunk
    if work.phase == "forward":
        if stage > 0:
            return [(stage - 1, "forward", m, chunk)]
        return [(stages - 1, "forward", m, chunk - 1)] if chunk else []
    if work.phase == "weight":
        return [(stage, "input", m, chunk)]
    if stage < stages - 1:
        return [(stage + 1, phase, m, chunk) for phase in ("backward", "input")]
    if chunk < last_chunk:
        return [(0, phase, m, chunk + 1) for phase in ("backward", "input")]
    return [(stage, "forward", m, chunk)]


def bubble(table: pd.DataFrame) -> float:
    """Share of all devices' time, from the first start to the last end, in which they wait."""
    if table.empty:
        return 0.0
    whole = (table["end"].max() - table["start"].min()) * table["stage"].nunique()
    return float(1 - (table["end"] - table["start"]).sum() / whole) if whole else 0.0
