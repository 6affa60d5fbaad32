"""Results from a folder of profiler traces: one table for each question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from course_lib.read.memory_traces.timeline import Memory
from course_lib.read.memory_traces.torch_profiler import from_trace
from course_lib.read.profiler_traces import operators, step_times
from course_lib.read.profiler_traces.recommendations import Recommendation, recommend
from course_lib.read.profiler_traces.step_times import Worker, spans_of, utilisation

if TYPE_CHECKING:
    import pandas as pd

STEP_COLUMNS = ("rank", "worker", "step", "total_us", *(f"{role}_us" for role in step_times.ROLES))
OVERLAP = (
    "compute",
    "pace",
    "communication",
    "exposed_communication",
    "overlapped",
    "idle",
    "data",
    "total",
)
SPAN_COLUMNS = ("rank", "step", "name", "begin_us", "end_us", "category")
COMMUNICATION_COLUMNS = (
    "rank",
    "name",
    "calls",
    "total_us",
    "size_bytes",
    "data_transfer_us",
    "synchronising_us",
)


@dataclass(frozen=True)
class Profile:
    """Tables that are computed on first use. Times are microseconds.

    `step_time` uses the categories of torch-tb-profiler and agrees with it; `overlap` is the
    course's own division (see `step_times.py`)."""

    parts: tuple[Worker, ...]
    notes: tuple[str, ...] = ()

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(part.rank for part in self.parts)

    @property
    def device_kind(self) -> str:
        names = {str(item.get("name")) for part in self.parts for item in part.trace.devices}
        busy = any(part.kinds.kernel.any() for part in self.parts)
        return ", ".join(sorted(names)) if names else "device" if busy else "cpu"

    def _of_all(
        self, table: Callable[[Worker], pd.DataFrame], columns: Sequence[str]
    ) -> pd.DataFrame:
        """Return one table of all ranks."""
        import pandas as pd

        tables = [table(part).assign(rank=part.rank, worker=part.name) for part in self.parts]
        tables = [table for table in tables if len(table)]
        every = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        return every.reindex(columns=list(columns))

    @cached_property
    def step_time(self) -> pd.DataFrame:
        return self._of_all(step_times.breakdown, STEP_COLUMNS)

    @cached_property
    def overlap(self) -> pd.DataFrame:
        columns = ("rank", "step", *(f"{name}_us" for name in OVERLAP))
        return self._of_all(step_times.overlap, columns)

    @cached_property
    def operators(self) -> pd.DataFrame:
        return self._of_all(operators.operator_table, ("rank", *operators.OPERATOR_COLUMNS))

    @cached_property
    def kernels(self) -> pd.DataFrame:
        return self._of_all(operators.kernel_table, ("rank", *operators.KERNEL_COLUMNS))

    @cached_property
    def ranges(self) -> pd.DataFrame:
        return self._of_all(operators.range_table, ("rank", "name", "calls", "total_us"))

    @cached_property
    def communication(self) -> pd.DataFrame:
        """Return times of collectives by rank. In each collective, the shortest time is the
        transfer; longer times include waiting. With one rank there is no comparison."""
        import pandas as pd

        names = ("rank", "name", "turn", "duration_us", "size_bytes")
        every = self._of_all(operators.collective_table, names)
        if every.empty:
            return pd.DataFrame(columns=list(COMMUNICATION_COLUMNS))
        shortest = every.groupby(["name", "turn"])["duration_us"].transform("min")
        shared = every.groupby(["name", "turn"])["rank"].transform("nunique") > 1
        every["data_transfer_us"] = shortest.where(shared)
        every["synchronising_us"] = (every["duration_us"] - shortest).where(shared)
        found = every.groupby(["rank", "name"], as_index=False).agg(
            calls=("turn", "count"),
            total_us=("duration_us", "sum"),
            size_bytes=("size_bytes", lambda values: values.sum(min_count=1)),
            data_transfer_us=("data_transfer_us", lambda values: values.sum(min_count=1)),
            synchronising_us=("synchronising_us", lambda values: values.sum(min_count=1)),
        )
        return found[list(COMMUNICATION_COLUMNS)]

    @cached_property
    def spans(self) -> pd.DataFrame:
        """Return steps, named ranges and communication, with times since the first event."""
        starts = [part.trace.start_us.min() for part in self.parts if len(part.trace.start_us)]
        start = float(min(starts, default=0.0))
        return self._of_all(partial(spans_of, start=start), SPAN_COLUMNS).astype({"step": "Int64"})

    @property
    def tensor_core_share(self) -> float | None:
        """Return the share of the kernels' time on Tensor Cores; None without kernels."""
        total = float(self.kernels["total_us"].sum())
        mine = float(self.kernels.loc[self.kernels["tensor_core"] == True, "total_us"].sum())  # noqa: E712
        return mine / total if total else None

    @cached_property
    def gpu_utilisation(self) -> float | None:
        """Return the share of all steps' time in which a kernel ran; the mean over ranks."""
        shares = [share for part in self.parts if (share := utilisation(part)) is not None]
        return float(np.mean(shares)) if shares else None

    @cached_property
    def memory(self) -> Memory:
        return Memory(
            tuple(
                replace(item, rank=part.rank)
                for part in self.parts
                for item in from_trace(part.trace)
            )
        )

    @cached_property
    def recommendations(self) -> tuple[Recommendation, ...]:
        return recommend(self)
