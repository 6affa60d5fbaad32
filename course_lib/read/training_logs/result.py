"""Training log as tables, with the sizes and arguments of the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.messages import _
from course_lib.read.prefix import Prefix
from course_lib.read.rows import Rows
from course_lib.read.training_logs.iteration_table import (
    IterationRows,
    ranks_of,
)
from course_lib.read.training_logs.trainer_lines import UNREAD_LOSS, LineRule

if TYPE_CHECKING:
    import pandas as pd

# Relative difference below which losses come from the same computation.
ROUNDING = 1e-3
EVALUATION_COLUMNS = ("iteration", "split", "name", "lm_loss", "perplexity", "rank", "line", "file")
MEMORY_COLUMNS = (
    "iteration", "rank", "allocated_mib", "max_allocated_mib", "reserved_mib", "max_reserved_mib",
    "what", "line", "file",
)  # fmt: skip
PARAMETER_COLUMNS = ("tensor_rank", "pipeline_rank", "parameters", "rank", "line", "file")
EPOCH_COLUMNS = (
    "epoch", "elapsed_s", "samples_per_second", "train_loss", "validation_loss", "validation_s",
    "wind_rmse_m_s", "persistence_rmse_m_s", "rank", "line", "file",
)  # fmt: skip
TIMER_COLUMNS = ("iteration", "name", "min_ms", "max_ms", "line", "file")
OVERFLOW_COLUMNS = (
    "iteration",
    "rank",
    "loss_scale",
    "new_loss_scale",
    "hysteresis",
    "line",
    "file",
)
NOTE_COLUMNS = ("kind", "text", "rank", "node", "line", "file")


@dataclass(frozen=True)
class World:
    """Sizes of the run as the log states them, or None."""

    world_size: int | None = None
    data: int | None = None
    tensor: int | None = None
    pipeline: int | None = None
    context: int | None = None
    sequence: int | None = None
    expert: int | None = None
    precision: str | None = None
    micro_batches: int | None = None
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = ("world_size", "data", "tensor", "pipeline", "context", "expert")
        known = [f"{name} {value}" for name in names if (value := getattr(self, name)) is not None]
        known += [self.precision] if self.precision else []
        known += (
            [_("{micro_batches} micro-batches", micro_batches=self.micro_batches)]
            if self.micro_batches
            else []
        )
        return ", ".join(known) or _("the log does not state the sizes of the run")


@dataclass(frozen=True)
class TrainingLog:
    """Tables of one run. If a log has several attempts (a restart, or the job run again),
    `iterations` keeps the last printed row of each iteration, and `repeated` keeps earlier rows."""

    world: World
    iterations: pd.DataFrame
    repeated: pd.DataFrame
    evaluations: pd.DataFrame
    memory: pd.DataFrame
    parameters: pd.DataFrame
    epochs: pd.DataFrame
    timers: pd.DataFrame
    overflows: pd.DataFrame
    notes: pd.DataFrame
    arguments: dict[str, str] = field(default_factory=dict)
    total_parameters: int | None = None
    lines: int = 0
    files: tuple[str, ...] = ()

    @property
    def is_understood(self) -> bool:
        tables = (self.iterations, self.evaluations, self.memory, self.parameters, self.epochs)
        more = (self.timers, self.overflows, self.notes.drop(self.unread.index))
        known = self.world != World() or self.arguments or self.total_parameters is not None
        return bool(known) or any(len(table) for table in (*tables, *more))

    @property
    def unread(self) -> pd.DataFrame:
        """Return the lines that state a loss in an unknown form."""
        return self.notes[self.notes["kind"] == UNREAD_LOSS.name]

    @property
    def last_iteration(self) -> int | None:
        return None if self.iterations.empty else int(self.iterations["iteration"].max())

    @property
    def total_iterations(self) -> int | None:
        known = self.iterations["total_iterations"].dropna()
        return None if known.empty else int(known.iloc[-1])

    @property
    def finished(self) -> bool:
        """Return True if the last requested iteration is in the log."""
        last, total = self.last_iteration, self.total_iterations
        return last is not None and total is not None and last >= total

    @property
    def skipped(self) -> int:
        return int(self.iterations["skipped_iterations"].fillna(0).sum())

    @property
    def nan(self) -> int:
        return int(self.iterations["nan_iterations"].fillna(0).sum())

    @property
    def attempts(self) -> int:
        return 0 if self.iterations.empty else int(self.iterations["attempt"].max()) + 1

    @property
    def parameter_count(self) -> int | None:
        """Return the log's total, or the sum over model-parallel ranks, which counts embeddings
        twice that two stages share."""
        if self.total_parameters is not None:
            return self.total_parameters
        known = self.parameters.dropna(subset=["parameters"])
        if known.empty:
            return None
        once = known.drop_duplicates(["tensor_rank", "pipeline_rank"])
        return int(once["parameters"].sum())

    @property
    def losses(self) -> pd.Series[float]:
        return self.iterations.set_index("iteration")["lm_loss"].dropna()

    def losses_beside(self, other: TrainingLog) -> str:
        """Return a message about the difference from the losses of an equivalent run."""
        losses = self.iterations["lm_loss"]
        apart = (losses - other.iterations["lm_loss"]).abs().max()
        if apart == 0:
            return _("the losses are equal in every digit")
        if apart < ROUNDING * losses.min():
            return _(
                "the losses are equal up to rounding: they differ by {apart:.1e} at most",
                apart=apart,
            )
        return _(
            "the losses differ by up to {apart:.2g}: these runs did NOT do the same work",
            apart=apart,
        )

    def __str__(self) -> str:
        if not self.is_understood:
            return _(
                "nothing in these {lines} lines was understood, because neither Megatron-LM, nor "
                "a program derived from it, nor the course prints such lines",
                lines=self.lines,
            )
        if self.iterations.empty:
            return _(
                "{world}; no iteration line in {lines} lines", world=self.world, lines=self.lines
            )
        last = self.iterations.iloc[-1]
        parts = [
            f"{self.world}",
            _(
                "iteration {last_iteration} of {total_iterations}",
                last_iteration=self.last_iteration,
                total_iterations=self.total_iterations,
            ),
        ]
        parts += [f"loss {last.lm_loss:.4g}"] if last.lm_loss == last.lm_loss else []
        parts += (
            [_("{elapsed_ms:.1f} ms per iteration", elapsed_ms=last.elapsed_ms)]
            if last.elapsed_ms > 0
            else []
        )
        return "; ".join(parts)


# Longer than any line of interest; a malicious one is cut.
LONGEST_LINE_BYTES = 20_000
MOST_ARGUMENTS, MOST_TIMERS = 5000, 100_000
_ARGUMENT = re.compile(rb"([A-Za-z_][A-Za-z0-9_\-]{0,80}) ?\.{3,} ?([^\n]{0,300})")
_SIZES = {
    "world_size": "world_size",
    "data": "data_parallel_size",
    "tensor": "tensor_model_parallel_size",
    "pipeline": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "expert": "expert_model_parallel_size",
    "sequence": "",
}


@dataclass
class Line:
    """Line with its place. `text` has no terminal colours."""

    text: bytes
    source: Source
    file: int
    line: int

    @property
    def found(self) -> Prefix:
        return prefix.parse(self.text)

    @property
    def where(self) -> dict[str, Any]:
        return {"who": self.found, "line": self.line, "file": self.source.name}


def world_of(run: dict[str, Any], arguments: dict[str, str], nodes: tuple[str, ...]) -> World:
    """Return the sizes; printed lines take precedence over arguments."""
    sizes: dict[str, int] = {}
    for name, argument in _SIZES.items():
        if name in run:
            sizes[name] = int(run[name])
        elif (value := arguments.get(argument, "")).isdecimal():
            sizes[name] = int(value[:9])
    if "fallback_world_size" in run:
        sizes.setdefault("world_size", int(run["fallback_world_size"]))
    if {"world_size", "tensor"} <= sizes.keys() and "data" not in sizes:  # as in the oldest logs
        model = sizes["tensor"] * sizes.get("pipeline", 1) * sizes.get("context", 1)
        if model and sizes["world_size"] % model == 0:
            sizes["data"] = sizes["world_size"] // model
    return World(
        **sizes,
        precision=run.get("precision")
        or arguments.get("params_dtype", "").removeprefix("torch.")
        or None,
        micro_batches=int(run["micro_batches"]) if "micro_batches" in run else None,
        nodes=nodes,
    )


@dataclass
class Tables:
    iterations: IterationRows = field(default_factory=IterationRows)
    others: IterationRows = field(default_factory=IterationRows)
    run: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    evaluations: Rows = field(default_factory=lambda: Rows(EVALUATION_COLUMNS, ["iteration"]))
    memory: Rows = field(default_factory=lambda: Rows(MEMORY_COLUMNS, ["iteration"]))
    parameters: Rows = field(
        default_factory=lambda: Rows(
            PARAMETER_COLUMNS, ["tensor_rank", "pipeline_rank", "parameters"]
        )
    )
    epochs: Rows = field(default_factory=lambda: Rows(EPOCH_COLUMNS, ["epoch"]))
    timers: Rows = field(
        default_factory=lambda: Rows(TIMER_COLUMNS, ["iteration"], most=MOST_TIMERS)
    )
    overflows: Rows = field(
        default_factory=lambda: Rows(OVERFLOW_COLUMNS, ["iteration", "hysteresis"])
    )
    notes: Rows = field(default_factory=lambda: Rows(NOTE_COLUMNS))

    def begin_file(self, file: int) -> None:
        self.iterations.begin_file(file)
        self.others.begin_file(file)

    def add(self, rule: LineRule, row: dict[str, Any], place: Line) -> None:
        """Add a row of a line to the table of its rule."""
        if rule.table == "run":
            self.run |= {name: value for name, value in row.items() if value is not None}
            if "world_size" in row:
                self.iterations.begin_attempt()
        elif rule.table == "iterations":
            for name, value in row.items():
                self.iterations.complete(place.file, name, value)
        elif rule.table == "others":
            known = {name: value for name, value in row.items() if value is not None}
            known.setdefault("iteration", len(self.others) + 1.0)
            if "train_loss" in known:
                known.setdefault("lm_loss", known["train_loss"])
            self.others.add(known, place.text[: place.found.length], place.line)
        elif rule.table == "notes":
            body = place.text[place.found.length :].strip()[:500].decode("utf-8", "replace")
            self.notes.add(kind=rule.name, text=body, **place.where)
        elif rule.table != "arguments":
            rows: Rows = getattr(self, rule.table)
            if rule.joins:
                self._complete(rows, row, place)
            else:
                if len(rows.rows) == rows.most - 1:
                    text = f"only the first {rows.most} rows of {rule.table} are kept"
                    self.notes.add(kind="limit", text=text, **place.where)
                if "iteration" in rows.columns and row.get("iteration") is None:
                    row["iteration"] = self.iterations.last_iteration
                rows.add(**row, **place.where)

    @staticmethod
    def _complete(rows: Rows, row: dict[str, Any], place: Line) -> None:
        """Add values to the last row of the same process that lacks them, else to a new row."""
        for name, value in row.items():
            mine = [old for old in rows.rows[-64:] if old["who"].printer == place.found.printer]
            if not mine or name in mine[-1]:
                rows.add(**place.where)
                mine = rows.rows[-1:]
            mine[-1][name] = value

    def argument(self, text: bytes) -> bool:
        """Read a line of Megatron's table of arguments: `name ....... value`."""
        match = _ARGUMENT.search(text)
        if match and len(self.arguments) < MOST_ARGUMENTS:
            self.arguments[match[1].decode()] = match[2].decode("utf-8", "replace").strip()
        return match is not None

    def log(self, sources: Sequence[Source], lines: int) -> TrainingLog:
        files = [source.name for source in sources]
        iterations, repeated = (self.iterations if len(self.iterations) else self.others).tables(
            sources
        )
        named = ("evaluations", "memory", "parameters", "epochs", "timers", "overflows", "notes")
        found = {name: self._with_ranks(getattr(self, name)) for name in named}
        total = self.run.get("total_parameters")
        arguments = dict(self.arguments)
        if padded := self.run.get("padded_vocab_size"):  # it is printed after the arguments
            arguments["padded_vocab_size"] = str(int(padded))
        return TrainingLog(
            world=world_of(self.run, self.arguments, self._nodes(iterations, found["notes"])),
            iterations=iterations,
            repeated=repeated,
            **found,
            arguments=arguments,
            total_parameters=round(total) if total is not None else None,
            lines=lines,
            files=tuple(files),
        )

    def _with_ranks(self, rows: Rows) -> pd.DataFrame:
        """Replace a line's prefix by rank and node."""
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
