"""The tables that the lines of a training log fill, and how they become a `TrainingLog`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.prefix import Prefix
from course_lib.read.rows import Rows
from course_lib.read.training_logs import result as shape
from course_lib.read.training_logs.iteration_lines.collected_rows import IterationRows
from course_lib.read.training_logs.result import TrainingLog
from course_lib.read.training_logs.world_sizes import WorldFinder

if TYPE_CHECKING:
    import pandas as pd


LONGEST_BYTES = 20_000
"""No line of interest is longer; a hostile one is cut."""


class LinePlace:
    """Who printed a line, where, and after which iteration; found out when it is asked for."""

    def __init__(self, block: bytes, span: tuple[int, int], source: Source, line: int) -> None:
        self.text = prefix.without_colours(block[span[0] : min(span[1], span[0] + LONGEST_BYTES)])
        self.source = source
        self.line = line
        self.file = 0
        self.iteration: int | None = None
        self._after = block, span[1] + 1

    @cached_property
    def found(self) -> Prefix:
        return prefix.parse(self.text)

    @property
    def following(self) -> bytes:
        """The bytes of the next line, as far as they are known."""
        block, start = self._after
        return block[start : start + 2000]

    @property
    def where(self) -> dict[str, Any]:
        return {"who": self.found, "line": self.line, "file": self.source.name}


@dataclass
class Tables:
    iterations: IterationRows = field(default_factory=IterationRows)
    world: WorldFinder = field(default_factory=WorldFinder)
    evaluations: Rows = field(default_factory=lambda: Rows(shape.EVALUATION_COLUMNS, ["iteration"]))
    memory: Rows = field(default_factory=lambda: Rows(shape.MEMORY_COLUMNS, ["iteration"]))
    parameters: Rows = field(
        default_factory=lambda: Rows(
            shape.PARAMETER_COLUMNS, ["tensor_rank", "pipeline_rank", "parameters"]
        )
    )
    epochs: Rows = field(default_factory=lambda: Rows(shape.EPOCH_COLUMNS, ["epoch"]))
    timers: Rows = field(default_factory=lambda: Rows(shape.TIMER_COLUMNS, ["iteration"]))
    overflows: Rows = field(
        default_factory=lambda: Rows(shape.OVERFLOW_COLUMNS, ["iteration", "hysteresis"])
    )
    notes: Rows = field(default_factory=lambda: Rows(shape.NOTE_COLUMNS))
    others: Rows = field(
        default_factory=lambda: Rows((*shape.ITERATION_COLUMNS, *shape.WHERE_COLUMNS))
    )
    total_parameters: int | None = None
    timer_reports: int = 0

    def note(self, kind: str, text: bytes, place: LinePlace) -> None:
        body = text[place.found.length :].strip()[:500]
        self.notes.add(kind=kind, text=body.decode("utf-8", "replace"), **place.where)

    def log(self, sources: Sequence[Source], lines: int, last: bool) -> TrainingLog:
        from course_lib.read.training_logs.iteration_lines.table import build, build_others

        files = [source.name for source in sources]
        iterations, repeated = build(self.iterations, sources, last)
        if iterations.empty and self.others.rows:
            iterations, repeated = build_others(self._with_ranks(self.others))
        named = ("evaluations", "memory", "parameters", "epochs", "timers", "overflows", "notes")
        found = {name: self._with_ranks(getattr(self, name)) for name in named}
        return TrainingLog(
            world=self.world.world(self._nodes(iterations, found["notes"])),
            iterations=iterations,
            repeated=repeated,
            **found,
            arguments=dict(self.world.arguments),
            total_parameters=self.total_parameters,
            lines=lines,
            files=tuple(files),
        )

    def _with_ranks(self, rows: Rows) -> pd.DataFrame:
        """Replaces who printed a line by rank and node."""
        from course_lib.read.training_logs.iteration_lines.table import ranks_of

        printers = [row.get("who") or Prefix() for row in rows.rows]
        records = [
            {name: value for name, value in row.items() if name != "who"}
            | {"rank": row.get("rank") if row.get("rank") is not None else rank, "node": who.node}
            for row, rank, who in zip(rows.rows, ranks_of(printers), printers, strict=True)
        ]
        table = Rows(rows.columns, [*rows.integers, "rank", "line"], records).table()
        return table if "node" in rows.columns else table.drop(columns="node", errors="ignore")

    @staticmethod
    def _nodes(iterations: pd.DataFrame, notes: pd.DataFrame) -> tuple[str, ...]:
        nodes = set(iterations["node"].dropna()) if "node" in iterations else set()
        return tuple(sorted({str(node) for node in nodes | set(notes["node"].dropna())}))


Handler = Callable[[Tables, bytes, LinePlace], None]
