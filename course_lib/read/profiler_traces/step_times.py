"""Times of each step of one rank: by the categories of torch-tb-profiler, and by overlap.

`breakdown` agrees with that tool to the microsecond, including two of its peculiarities: launch
calls count as CPU time (their category was renamed later), and data loading counts only if it is
recorded as an operator. It does not repeat a third peculiarity: if a trace names steps on the
device too, the tool counts them twice. Here each step counts once, with its host times. `overlap`
is the course's own division: communication kernels are recognized by name, data loading by any
record. Both are arithmetic with intervals of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from course_lib.read.profiler_traces.trace_file import Trace

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ranges:
    """Intervals, which may overlap."""

    start: Floats
    end: Floats

    @staticmethod
    def none() -> Ranges:
        return Ranges(np.zeros(0), np.zeros(0))


class Timeline:
    """Division of time at every edge of every set: each piece is inside or outside each set."""

    def __init__(self, sets: Sequence[Ranges]) -> None:
        edges = [edge for item in sets for edge in (item.start, item.end)]
        self.edges: Floats = np.unique(np.concatenate(edges)) if edges else np.zeros(0)
        self.lengths = np.diff(self.edges)
        self.covered = [self._cover(item) for item in sets]

    def _cover(self, item: Ranges) -> Bools:
        change = np.zeros(max(len(self.edges), 1), np.int64)
        np.add.at(change, np.searchsorted(self.edges, item.start), 1)
        np.add.at(change, np.searchsorted(self.edges, item.end), -1)
        return np.cumsum(change)[:-1] > 0

    def sums(self, pieces: Bools, steps: Ranges) -> Floats:
        """Return the time of the chosen pieces in each step; steps must be among the sets."""
        if not len(self.edges):
            return np.zeros(len(steps.start))
        running = np.concatenate(([0.0], np.cumsum(np.where(pieces, self.lengths, 0.0))))
        first, last = (
            np.searchsorted(self.edges, steps.start),
            np.searchsorted(self.edges, steps.end),
        )
        return np.asarray(running[last] - running[first], np.float64)


ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
_COLLECTIVES = ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter")
COLLECTIVE_NAMES = {f"{kind}:{name}" for kind in ("nccl", "gloo") for name in _COLLECTIVES}


def is_communication(name: str) -> bool:
    """Tell whether a kernel belongs to NCCL, RCCL or a similar library."""
    lower = name.lower()
    return any(word in lower for word in ("nccl", "rccl", "oneccl", "ccl::", "all_reduce_kernel"))


PACE = "course::pace"  # a slot's sleep that makes its computing as slow as its pace


@dataclass(frozen=True)
class Kinds:
    """Masks of events by kind, as torch-tb-profiler classifies them."""

    step: Bools
    kernel: Bools
    memcpy: Bools
    memset: Bools
    runtime: Bools
    operator: Bools
    collective: Bools
    host: Bools
    pace: Bools
    named_communication: Bools

    @property
    def on_device(self) -> Bools:
        return self.kernel | self.memcpy | self.memset


def kinds_of(trace: Trace) -> Kinds:
    annotation = trace.of_category("user_annotation", "gpu_user_annotation")
    operator = trace.of_category("cpu_op", "operator", "python")
    numbered = trace.of_name(lambda name: step_number(name) is not None)
    step = numbered & trace.of_category("user_annotation", "cpu_op", "operator")
    if not step.any():
        step = numbered & annotation
    collective = trace.of_name(lambda name: name in COLLECTIVE_NAMES) & (annotation | operator)
    kernel = trace.of_category("kernel")
    return Kinds(
        step=step,
        kernel=kernel,
        memcpy=trace.of_category("memcpy", "gpu_memcpy"),
        memset=trace.of_category("memset", "gpu_memset"),
        runtime=trace.of_category("runtime"),
        operator=operator & ~step,
        collective=collective,
        host=(operator | step),
        pace=operator & ~step & trace.of_name(PACE.__eq__),
        named_communication=kernel & trace.of_name(is_communication),
    )


def step_number(name: str) -> int | None:
    head, _, number = name.partition("#")
    return int(number[:18]) if head == "ProfilerStep" and number.isdecimal() else None


def is_data_loading(name: str) -> bool:
    if name.startswith("enumerate(DataPipe)#"):
        return True
    return name.startswith("enumerate(DataLoader)#") and name.endswith(".__next__")


@dataclass(frozen=True)
class Steps:
    numbers: tuple[int, ...]
    ranges: Ranges


@dataclass(frozen=True)
class Worker:
    """Trace of one rank, with the kinds of its events."""

    name: str
    rank: int
    trace: Trace
    kinds: Kinds
    steps: Steps


def ranges_of(trace: Trace, chosen: Bools) -> Ranges:
    return Ranges(trace.start_us[chosen], trace.end_us[chosen])


def steps_of(trace: Trace, kinds: Kinds) -> Steps:
    """Return the profiler's steps; without steps, one step over everything."""
    rows = np.flatnonzero(kinds.step)
    if not len(rows):
        host = kinds.host & ~trace.of_category("user_annotation", "gpu_user_annotation")
        if not host.any():
            return Steps((), Ranges.none())
        whole = ranges_of(trace, host)
        return Steps((0,), Ranges(whole.start.min(keepdims=True), whole.end.max(keepdims=True)))
    numbers = tuple(step_number(trace.names[code]) or 0 for code in trace.name[rows])
    steps = Steps(numbers, ranges_of(trace, kinds.step))
    return _with_device_time(trace, kinds, steps) if kinds.runtime.any() else steps


def _with_device_time(trace: Trace, kinds: Kinds, steps: Steps) -> Steps:
    """Extend steps to the end of the last kernel that they launched.

    The last step is dropped if the profiler seems to have missed its kernels."""
    on_device = kinds.on_device
    first, last, count, launched = _launched(trace, kinds, steps, on_device)
    if not count.any():
        return steps
    start, end = steps.ranges.start.copy(), steps.ranges.end.copy()
    before = start[0]
    if count[0]:
        earlier = on_device & ~launched & (trace.end_us < first[0])
        before = max([before, *trace.end_us[earlier].tolist()])
    for number in range(len(start)):
        start[number] = max(before, start[number])
        end[number] = max(
            end[number], last[number] if count[number] else start[number], start[number]
        )
        before = end[number]
    kept = len(start)
    if kept > 1:
        kept = int(np.flatnonzero(count)[-1]) + 1
        if kept > 1 and count[kept - 2] * 0.8 > count[kept - 1]:
            kept -= 1
    return Steps(steps.numbers[:kept], Ranges(start[:kept], end[:kept]))


def _launched(
    trace: Trace, kinds: Kinds, steps: Steps, on_device: Bools
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.int64], Bools]:
    """Return each step's first start and last end on the device, and its number of launches."""
    calls = np.flatnonzero(kinds.runtime)
    begin, over = trace.start_us[calls], trace.end_us[calls]
    step = np.searchsorted(steps.ranges.start, begin, "right") - 1
    inside = (step >= 0) & (over <= steps.ranges.end[np.maximum(step, 0)])
    step_of = dict(
        zip(trace.correlation[calls[inside]].tolist(), step[inside].tolist(), strict=True)
    )
    number = len(steps.numbers)
    first, last = np.full(number, np.inf), np.full(number, -np.inf)
    count, launched = np.zeros(number, np.int64), np.zeros(len(on_device), np.bool_)
    for row in np.flatnonzero(on_device).tolist():
        mine = step_of.get(int(trace.correlation[row]))
        if mine is not None and trace.correlation[row] >= 0:
            launched[row] = True
            count[mine] += 1
            first[mine] = min(first[mine], trace.start_us[row])
            last[mine] = max(last[mine], trace.start_us[row] + trace.duration_us[row])
    return first, last, count, launched


def breakdown(part: Worker) -> pd.DataFrame:
    """Return the microseconds of each role in each step; they add up to `total`."""
    trace, kinds, steps = part.trace, part.kinds, part.steps
    communicating = kinds.kernel & np.isin(trace.external, trace.external[kinds.collective])
    loading = kinds.operator & trace.of_name(is_data_loading)
    chosen = (
        kinds.kernel & ~communicating,
        kinds.memcpy,
        kinds.memset,
        communicating | kinds.collective,
        kinds.runtime,
        loading,
        kinds.operator & ~kinds.collective & ~loading,
    )
    sets = [ranges_of(trace, item) for item in chosen]
    timeline = Timeline([steps.ranges, *sets])
    free = np.ones(len(timeline.lengths), np.bool_)
    found: dict[str, npt.NDArray[np.float64]] = {}
    for role, covered in zip(ROLES, timeline.covered[1:], strict=False):
        found[role] = timeline.sums(free & covered, steps.ranges)
        free &= ~covered
    found["other"] = timeline.sums(free, steps.ranges)
    return _by_step(found, steps)


def _by_step(found: dict[str, Floats], steps: Steps) -> pd.DataFrame:
    import pandas as pd

    found = found | {"total": steps.ranges.end - steps.ranges.start}
    table = pd.DataFrame({f"{name}_us": values for name, values in found.items()})
    return table.assign(step=np.array(steps.numbers, np.int64))


def overlap(part: Worker) -> pd.DataFrame:
    """Return compute, communication and its exposed part, data loading, and idle time. `pace` is
    the part of compute in which a slot of the box slept to keep its pace.

    The activity of the device counts, or of the host if there is no device. On a host, an operator
    that calls a collective may only wait for it, like the sums of tensor parallelism. During
    messages, only the operators inside such an operator count as compute."""
    trace, kinds, steps = part.trace, part.kinds, part.steps
    by_id = np.isin(trace.external, trace.external[kinds.collective & (trace.external >= 0)])
    device_communication = kinds.named_communication | (kinds.kernel & by_id)
    device = bool(kinds.kernel.any())
    communication, compute = kinds.collective, kinds.operator & ~kinds.collective
    if device:
        communication = device_communication
        compute = kinds.on_device & ~device_communication
    loading = trace.of_name(is_data_loading) & ~kinds.kernel
    compute &= ~loading
    calling = compute & _calls_a_collective(trace) & (not device)
    chosen = (compute & ~calling, communication, loading, calling, kinds.pace)
    timeline = Timeline([steps.ranges, *(ranges_of(trace, item) for item in chosen)])
    _, busy, talking, data, may_wait, asleep = timeline.covered
    if not device:
        busy = (busy | (may_wait & ~talking)) & ~data
    pieces = {
        "compute": busy,
        "pace": busy & asleep,
        "communication": talking,
        "exposed_communication": talking & ~busy,
        "overlapped": talking & busy,
        "data": data & ~busy & ~talking,
        "idle": ~busy & ~talking & ~data,
    }
    sums = {name: timeline.sums(chosen, steps.ranges) for name, chosen in pieces.items()}
    return _by_step(sums, steps)


def _calls_a_collective(trace: Trace) -> Bools:
    """Return the spans that enclose a torch communication call on its thread, and the calls."""
    calls = trace.of_name(lambda name: name.startswith("c10d::"))
    encloses = calls.copy()
    for thread in np.unique(trace.thread[calls]).tolist():
        here = trace.thread == thread
        begins = np.sort(trace.start_us[calls & here])
        first = np.searchsorted(begins, trace.start_us[here], "left")
        encloses[here] |= first < np.searchsorted(begins, trace.end_us[here], "left")
    return encloses


def utilisation(part: Worker) -> float | None:
    """Return torch-tb-profiler's utilisation: from the start of the first step to the end of the
    last."""
    kernels, steps = part.kinds.kernel, part.steps.ranges
    if not kernels.any() or not len(steps.start):
        return None
    span = Ranges(steps.start[:1], steps.end[-1:])
    timeline = Timeline([span, ranges_of(part.trace, kernels)])
    length = float(span.end[0] - span.start[0])
    return float(timeline.sums(timeline.covered[1], span)[0]) / length if length > 0 else None


def spans_of(part: Worker, start: float) -> pd.DataFrame:
    """Return steps, named ranges and communication; times count from `start`."""
    import pandas as pd

    trace, kinds, steps = part.trace, part.kinds, part.steps
    talking = kinds.named_communication | kinds.collective
    chosen = np.flatnonzero(
        trace.of_category("user_annotation") | kinds.step | talking | kinds.pace
    )
    begin = trace.start_us[chosen]
    place = np.searchsorted(steps.ranges.start, begin, "right") - 1
    inside = begin < np.append(steps.ranges.end, -np.inf)[place]
    numbers = np.append(np.array(steps.numbers, np.int64), 0)[place]
    kinds_of_spans = [kinds.step[chosen], talking[chosen], kinds.pace[chosen]]
    return pd.DataFrame(
        {
            "rank": part.rank,
            "step": pd.arrays.IntegerArray(numbers, ~inside),
            "name": [trace.names[code] for code in trace.name[chosen]],
            "begin_us": begin - start,
            "end_us": begin + trace.duration_us[chosen] - start,
            "category": np.select(kinds_of_spans, ["step", "communication", "pace"], "range"),
        }
    )
