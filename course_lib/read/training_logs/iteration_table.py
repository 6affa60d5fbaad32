"""Table of iterations, collected column by column, since logs may have a million of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.prefix import Prefix

if TYPE_CHECKING:
    import pandas as pd


ITERATION_INTEGERS = (
    "iteration",
    "total_iterations",
    "consumed_samples",
    "consumed_tokens",
    "global_batch_size",
    "skipped_iterations",
    "nan_iterations",
)
ITERATION_COLUMNS = (
    "iteration",
    "total_iterations",
    "consumed_samples",
    "consumed_tokens",
    "elapsed_ms",
    "learning_rate",
    "global_batch_size",
    "lm_loss",
    "loss_scale",
    "grad_norm",
    "params_norm",
    "num_zeros",
    "skipped_iterations",
    "nan_iterations",
    "samples_per_second",
    "tokens_per_second_per_device",
    "tflops_per_device",
)
WHERE_COLUMNS = ("timestamp", "rank", "node", "copies", "attempt", "line", "file")
Numbers = npt.NDArray[Any]
MOST_ROWS = 20_000_000
MOST_PRINTERS = 100_000
# A log of random bytes must not create a million columns.
MOST_COLUMNS = 100
# Distance between ranks that print the same iterations; a larger step back is a restart.
LARGEST_STEP_BACK = 2
_EPOCH = datetime(1970, 1, 1)
_NO_TIME = int(np.datetime64("NaT").astype(np.int64))
_TIME = re.compile(rb"[\d/.-]{0,11}[ T]?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_DATE = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


class IterationRows:
    """Rows of iterations in the order of the log, column by column."""

    def __init__(self) -> None:
        self.columns: dict[str, array[float]] = {}
        self.line, self.start, self.printer = array("q"), array("i"), array("i")
        self.stamp = array("q")
        self.printers: list[tuple[Prefix, int]] = []
        self.last_iteration: int | None = None
        self._codes: dict[tuple[bytes, int], int] = {}
        self._file = self._starts = 0

    def __len__(self) -> int:
        return len(self.line)

    def begin_file(self, file: int) -> None:
        self._file = file

    def begin_attempt(self) -> None:
        self._starts += 1

    def add(self, values: dict[str, float], head: bytes, line: int) -> None:
        """Add a row; `head` is the text before it, with the rank that printed it and the time."""
        row = len(self)
        if row >= MOST_ROWS:
            return
        for name, value in values.items():
            self._column(name).append(value)
        for column in self.columns.values():
            if len(column) == row:
                column.append(np.nan)
        self.line.append(line)
        self.start.append(self._starts)
        self._who(head)
        if values["iteration"] < np.inf:  # a damaged log may have an infinite number
            self.last_iteration = int(values["iteration"])

    def _column(self, name: str) -> array[float]:
        """Return a column; a column that appears late is NaN before."""
        column = self.columns.get(name)
        if column is None:
            column = array("d", [np.nan]) * len(self)
            if len(self.columns) < MOST_COLUMNS:
                self.columns[name] = column
        return column

    def _who(self, head: bytes) -> None:
        """Store the printer; heads that differ only in times belong to one printer."""
        date = _DATE.search(head)
        self.stamp.append(_microseconds(date[0]) if date else _NO_TIME)
        key = _TIME.sub(b"", head), self._file
        code = self._codes.get(key)
        if code is None:
            code = min(len(self.printers), MOST_PRINTERS - 1)
            if len(self.printers) < MOST_PRINTERS:
                self._codes[key] = code
                found = prefix.parse(prefix.without_colours(head))
                self.printers.append((found, self._file))
        self.printer.append(code)

    def complete(self, file: int, name: str, value: float) -> None:
        """Add a value from a later line to the last row of a file."""
        if self.printer and self.printers[self.printer[-1]][1] == file:
            self._column(name)[-1] = value

    def tables(self, sources: Sequence[Source]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the last row of each iteration, and the earlier ones."""
        import pandas as pd

        if not len(self):
            empty = pd.DataFrame(columns=[*ITERATION_COLUMNS, *WHERE_COLUMNS], dtype=float)
            return empty, empty.copy()
        columns = {name: np.array(column) for name, column in self.columns.items()}
        if "global_step" in columns:  # NeMo counts iterations within an epoch
            step, columns["iteration_in_epoch"] = columns["global_step"], columns["iteration"]
            columns["iteration"] = np.where(np.isnan(step), columns["iteration"], step)
        printer = np.array(self.printer)
        file = np.array([number for _, number in self.printers], np.int32)[printer]
        data: dict[str, Any] = {}
        for name in dict.fromkeys((*ITERATION_COLUMNS, *columns)):
            known = columns.get(name, np.full(len(self), np.nan))
            data[name] = _integers(known) if name in ITERATION_INTEGERS else known
        data |= self._where(printer, file, sources) | {
            "timestamp": np.array(self.stamp).view("M8[us]"),
            "attempt": attempts_of(columns["iteration"], np.array(self.start), file),
            "line": np.array(self.line),
        }
        order = [*(name for name in data if name not in WHERE_COLUMNS), *WHERE_COLUMNS]
        return _once(pd.DataFrame({name: data[name] for name in order}))

    def _where(self, printer: Numbers, file: Numbers, sources: Sequence[Source]) -> dict[str, Any]:
        import pandas as pd

        guessed = ranks_of([found for found, _ in self.printers])
        named = [sources[number].rank for _, number in self.printers]
        ranks = [name if rank is None else rank for rank, name in zip(guessed, named, strict=True)]
        known = np.array([rank is not None for rank in ranks])
        rank = np.array([rank or 0 for rank in ranks], np.int32)
        nodes = [found.node for found, _ in self.printers]
        return {
            "rank": pd.arrays.IntegerArray(rank[printer], ~known[printer]),
            "node": _categories(printer, nodes, sorted({node for node in nodes if node})),
            "copies": np.ones(len(self), np.int32),
            "file": _categories(file, names := [source.name for source in sources], names),
        }


def _microseconds(stamp: bytes) -> int:
    """Return microseconds since 1970, or numpy's NaT if the day or hour does not exist."""
    try:
        return (datetime.fromisoformat(stamp.decode()) - _EPOCH) // timedelta(microseconds=1)
    except ValueError:
        return _NO_TIME


def attempts_of(iteration: Numbers, start: Numbers, file: Numbers) -> Numbers:
    """Return the number of restarts before each row, file by file.

    An attempt begins with a new world line, or when the iteration number falls."""
    attempt = np.zeros(len(iteration), np.int32)
    changes = (iteration[1:] < iteration[:-1]) | (start[1:] > start[:-1])
    changes |= file[1:] != file[:-1]
    current, furthest, edge = 0, -np.inf, 0
    for row in (np.flatnonzero(changes) + 1).tolist():
        furthest = max(furthest, iteration[row - 1])
        attempt[edge:row] = current
        edge = row
        if file[row] != file[row - 1]:
            current, furthest = 0, -np.inf
        elif start[row] > start[row - 1] or furthest - iteration[row] > LARGEST_STEP_BACK:
            current, furthest = current + 1, -np.inf
    attempt[edge:] = current
    return attempt


def _integers(column: Numbers) -> Any:
    """Return plain integers if every row has an integer, otherwise nullable integers."""
    import pandas as pd

    unknown = ~(np.abs(column) < 2.0**62)
    if not unknown.any():
        return column.astype(np.int64)
    return pd.arrays.IntegerArray(np.where(unknown, 0, column).astype(np.int64), unknown)


def _categories(codes: Numbers, names: Sequence[str | None], known: Sequence[str]) -> Any:
    import pandas as pd

    known = list(dict.fromkeys(known))
    place = np.array([known.index(name) if name else -1 for name in names], np.int32)
    return pd.Categorical.from_codes(place[codes], pd.Index(known, dtype=str))


def ranks_of(prefixes: Sequence[Prefix]) -> list[int | None]:
    """Return printed ranks; a bare label of `srun` is a rank only without local ranks."""
    per_node = max(
        (found.local_rank for found in prefixes if found.local_rank is not None), default=None
    )
    ranks: list[int | None] = []
    for found in prefixes:
        if found.rank is not None:
            ranks.append(found.rank)
        elif found.local_rank is not None and found.task is not None and per_node is not None:
            ranks.append(found.task * (per_node + 1) + found.local_rank)
        else:
            ranks.append(found.task if found.local_rank is None else None)
    return ranks


def _once(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    iteration = table["iteration"].to_numpy()
    if table["iteration"].dtype == np.int64 and (iteration[1:] > iteration[:-1]).all():
        return table, table.iloc[:0]
    key = ["attempt", "iteration"]
    copies = table.groupby(key, sort=False)["copies"].sum()
    table = table.groupby(key, sort=False, as_index=False).first()[list(table.columns)]
    table["copies"] = copies.to_numpy()
    later = table.duplicated("iteration", keep="last")
    kept = table[~later].sort_values("iteration", kind="stable", ignore_index=True)
    return kept, table[later].reset_index(drop=True)
