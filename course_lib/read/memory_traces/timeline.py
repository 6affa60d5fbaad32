"""Memory of one rank and device over time, and the composition of its peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from course_lib.read.messages import ReadError, _

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
PHASE_COLUMNS = ("phase", "step", "micro_batch", "begin_us", "end_us", "peak_bytes", "chunk")
# Name, step, micro-batch, chunk of the rank's layers, begin and end in microseconds.
PhaseRow = tuple[str, int | None, int | None, int | None, float, float]
RESERVED_COLUMNS = ("time_us", "reserved_bytes")


def empty_table(columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns=list(columns))


@dataclass(frozen=True)
class MemoryTimeline:
    """Step function: from `time_us[i]` on, `bytes_by_category[i]` are in use.

    If the source has it, `reserved` is what the allocator holds from the device."""

    device: str
    source: str
    categories: tuple[str, ...]
    time_us: Floats
    bytes_by_category: Ints
    rank: int | None = None
    node: str | None = None
    phases: pd.DataFrame = field(default_factory=partial(empty_table, PHASE_COLUMNS))
    reserved: pd.DataFrame = field(default_factory=partial(empty_table, RESERVED_COLUMNS))
    limit_bytes: int | None = None
    layout: dict[str, int] = field(default_factory=dict)
    note: str = ""
    start_unix_ns: int | None = None

    @property
    def total_bytes(self) -> Ints:
        return np.asarray(self.bytes_by_category.sum(axis=1), np.int64)

    @property
    def _peak(self) -> int | None:
        return int(self.total_bytes.argmax()) if len(self.time_us) else None

    @property
    def peak_bytes(self) -> int:
        return 0 if self._peak is None else int(self.total_bytes[self._peak])

    @property
    def peak_time_us(self) -> float | None:
        return None if self._peak is None else float(self.time_us[self._peak])

    @property
    def peak_composition(self) -> dict[str, int]:
        if self._peak is None:
            return dict.fromkeys(self.categories, 0)
        row = self.bytes_by_category[self._peak].tolist()
        return dict(zip(self.categories, row, strict=True))

    @property
    def table(self) -> pd.DataFrame:
        import pandas as pd

        columns: dict[str, Any] = {"time_us": self.time_us}
        for number, name in enumerate(self.categories):
            columns[f"{name}_bytes"] = self.bytes_by_category[:, number]
        return pd.DataFrame(columns | {"total_bytes": self.total_bytes})

    def only(self, *categories: str) -> MemoryTimeline:
        """Return only some categories, for example to leave out memory that never changes."""
        columns = [self._column(name) for name in dict.fromkeys(categories)]
        return replace(
            self,
            categories=tuple(self.categories[column] for column in columns),
            bytes_by_category=self.bytes_by_category[:, columns],
            phases=self.phases.drop(columns="peak_bytes", errors="ignore"),
            reserved=empty_table(RESERVED_COLUMNS),
            limit_bytes=None,
        )

    def _column(self, category: str) -> int:
        if category in self.categories:
            return self.categories.index(category)
        known = ", ".join(self.categories)
        raise ReadError(
            _(
                "no memory of the kind {category!r} in this trace; it has {known}",
                category=category,
                known=known,
            )
        )

    def downsample(self, points: int) -> tuple[Floats, Ints]:
        """Return at most `points` rows (four or more): the ends, and the highest and lowest total
        of each interval, so that a drawing never loses a peak."""
        rows = len(self.time_us)
        if rows <= max(points, 4):
            return self.time_us, self.bytes_by_category
        total = self.total_bytes
        stretches = np.array_split(np.arange(1, rows - 1), max((points - 2) // 2, 1))
        kept = {0, rows - 1}
        for stretch in stretches:
            if len(stretch):
                kept.add(int(stretch[total[stretch].argmax()]))
                kept.add(int(stretch[total[stretch].argmin()]))
        chosen = np.array(sorted(kept))
        return self.time_us[chosen], self.bytes_by_category[chosen]


@dataclass(frozen=True)
class Memory:
    """Timelines of all ranks and devices; `notes` names unreadable files and the reasons."""

    ranks: tuple[MemoryTimeline, ...] = ()
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[MemoryTimeline]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, rank: int) -> MemoryTimeline:
        for timeline in self.ranks:
            if timeline.rank == rank:
                return timeline
        known = [timeline.rank for timeline in self.ranks]
        raise ReadError(
            _(
                "no memory trace of rank {rank}; there are traces of ranks {known}",
                rank=rank,
                known=known,
            )
        )

    def only(self, *categories: str) -> Memory:
        """Keep some categories of each rank, for example "activations"."""
        return replace(self, ranks=tuple(line.only(*categories) for line in self.ranks))

    @property
    def peaks(self) -> pd.DataFrame:
        import pandas as pd

        first = ["rank", "node", "device", "peak_bytes", "peak_time_us", "limit_bytes"]
        rows = [
            {name: getattr(item, name) for name in first}
            | {f"{name}_bytes": size for name, size in item.peak_composition.items()}
            for item in self.ranks
        ]
        table = pd.DataFrame(rows)
        return table.reindex(columns=list(dict.fromkeys([*first, *table.columns])))


def steps_from_changes(
    time_us: Sequence[float] | Floats, category: Sequence[int] | Ints, change: Any, categories: int
) -> tuple[Floats, Ints]:
    """Return the step function of changes by category; changes at the same time are one step."""
    time = np.asarray(time_us, np.float64)
    order = np.argsort(time, kind="stable")
    time = time[order]
    by_category = np.zeros((len(time), categories), np.int64)
    by_category[np.arange(len(time)), np.asarray(category, np.int64)[order]] = np.asarray(
        change, np.int64
    )[order]
    running = np.cumsum(by_category, axis=0)
    last = np.concatenate((time[1:] != time[:-1], [True])) if len(time) else np.zeros(0, np.bool_)
    return time[last], running[last]


def phase_table(phases: list[PhaseRow], time_us: Floats, total: Ints) -> pd.DataFrame:
    """Return the phases, each with its highest total in use."""
    import pandas as pd

    rows = []
    for name, step, micro_batch, chunk, begin, end in sorted(phases, key=lambda item: item[4]):
        first = max(int(np.searchsorted(time_us, begin, "right")) - 1, 0)
        last = int(np.searchsorted(time_us, end, "right"))
        peak = int(total[first:last].max()) if last > first else 0
        rows.append((name, step, micro_batch, begin, end, peak, chunk))
    table = pd.DataFrame(rows, columns=list(PHASE_COLUMNS))
    return table.astype({"step": "Int64", "micro_batch": "Int64", "chunk": "Int64"})
