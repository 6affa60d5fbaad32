"""Table of iteration lines, collected column by column, since logs may have a million of them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.prefix import Prefix
from course_lib.read.rows import as_integers
from course_lib.read.training_logs.iteration_lines import Form, Row

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
_TIME = re.compile(rb"[\d/.-]{0,11}[ T]?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_DATE = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")


class IterationRows:
    """Rows in the order of the log. Consecutive lines of one form are kept as text and converted to
    numbers together (`flush`)."""

    def __init__(self) -> None:
        self.columns: dict[str, array[float]] = {}
        self.line, self.start, self.printer = array("q"), array("i"), array("i")
        self.stamp = array("q")
        self.printers: list[tuple[Prefix, int]] = []
        self._last_iteration: int | None = None
        self._codes: dict[tuple[bytes, int], int] = {}
        self._form: Form | None = None
        self._numbers: list[float] = []
        self._heads: list[bytes] = []
        self._lines: list[int] = []
        self._file = self._starts = 0

    def __len__(self) -> int:
        return len(self.line) + len(self._lines)

    @property
    def last_iteration(self) -> int | None:
        self.flush()
        return self._last_iteration

    def begin_file(self, file: int) -> None:
        self.flush()
        self._file = file

    def begin_attempt(self) -> None:
        self.flush()
        self._starts += 1

    def read(self, form: Form, text: bytes, line: int) -> bool:
        """Add a line; return False if it has another form."""
        at = text.find(b"iteration")
        match = form.pattern.fullmatch(text, at)
        if match is None:
            return False
        if form is not self._form:
            self.flush()
            self._form = form
        self._numbers.extend(map(float, match.groups()))
        self._heads.append(text[:at])
        self._lines.append(line)
        return True

    def add(self, row: Row, line: int) -> None:
        self.flush()
        self._store(row.columns, np.array([row.values]), [row.head], [line])

    def flush(self) -> None:
        if self._form is not None:
            values = np.array(self._numbers).reshape(len(self._lines), -1) * self._form.factors
            self._store(self._form.columns, values, self._heads, self._lines)
            self._form, self._numbers, self._heads, self._lines = None, [], [], []

    def _store(
        self, names: Sequence[str], values: Numbers, heads: list[bytes], lines: list[int]
    ) -> None:
        before, count = len(self.line), len(self.line) + len(lines)
        if count > MOST_ROWS:
            return
        for name, column in _by_global_step(dict(zip(names, values.T, strict=True))).items():
            self._column(name, before).frombytes(column.tobytes())
        for mine in self.columns.values():
            mine.extend([np.nan] * (count - len(mine)))
        self.line.extend(lines)
        self.start.extend([self._starts] * len(lines))
        self._who(heads)
        last = self.columns["iteration"][-1]
        if last < np.inf:  # a damaged log may have an infinite number
            self._last_iteration = int(last)

    def _column(self, name: str, rows: int) -> array[float]:
        """Return a column; a column that appears late is NaN before."""
        column = self.columns.get(name)
        if column is None:
            column = array("d", [np.nan]) * rows
            if len(self.columns) < MOST_COLUMNS:
                self.columns[name] = column
        return column

    def _who(self, heads: list[bytes]) -> None:
        """Store the printers; heads that differ only in times belong to one printer."""
        stamps = []
        for head in heads:
            date = _DATE.search(head)
            stamps.append(date[0].replace(b",", b".") if date else b"")
            key = _TIME.sub(b"", head), self._file
            code = self._codes.get(key)
            if code is None:
                code = min(len(self.printers), MOST_PRINTERS - 1)
                if len(self.printers) < MOST_PRINTERS:
                    self._codes[key] = code
                    found = prefix.parse(prefix.without_colours(head))
                    self.printers.append((found, self._file))
            self.printer.append(code)
        self.stamp.frombytes(_times(stamps).tobytes())

    def complete(self, file: int, name: str, value: float) -> None:
        """Complete the last row of a file by a value from a later line."""
        self.flush()
        if self.printer and self.printers[self.printer[-1]][1] == file:
            self._column(name, len(self))[-1] = value

    def tables(
        self, sources: Sequence[Source], last: bool = False
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the tables. With `last`, the rows are not needed again and are freed by column."""
        import pandas as pd

        self.flush()
        if not len(self):
            empty = pd.DataFrame(columns=[*ITERATION_COLUMNS, *WHERE_COLUMNS], dtype=float)
            return empty, empty.copy()

        def numbers(column: array[Any], kind: str = "") -> Numbers:
            values = np.frombuffer(column, kind or column.typecode)
            return values if last else values.copy()

        printer = numbers(self.printer)
        file = np.array([number for _, number in self.printers], np.int32)[printer]
        attempt = attempts_of(np.array(self.columns["iteration"]), numbers(self.start), file)
        extra = [name for name in self.columns if name not in ITERATION_COLUMNS]
        data: dict[str, Any] = {
            "timestamp": numbers(self.stamp, "M8[us]"),
            "attempt": attempt,
            "line": numbers(self.line),
        }
        for name in (*ITERATION_COLUMNS, *extra):
            column = self.columns.pop(name, None) if last else self.columns.get(name)
            if column is None:
                data[name] = np.full(len(self), np.nan, np.float32)
            else:
                data[name] = numbers(column)
            if name in ITERATION_INTEGERS and column is not None:
                data[name] = _integers(data[name])
            del column
        data |= self._where(printer, file, sources)
        order = [*(name for name in data if name not in WHERE_COLUMNS), *WHERE_COLUMNS]
        return _once(pd.DataFrame({name: data[name] for name in order}, copy=False))

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


def _by_global_step(columns: dict[str, Numbers]) -> dict[str, Numbers]:
    """Use global steps, as NeMo counts iterations within an epoch."""
    if "global_step" not in columns:
        return columns
    step, iteration = columns["global_step"], columns["iteration"]
    known = np.where(np.isnan(step), iteration, step)
    return columns | {"iteration": known, "iteration_in_epoch": iteration}


def _times(stamps: list[bytes]) -> Numbers:
    try:
        return np.array(stamps, "S26").astype("datetime64[us]")
    except ValueError:  # no such day or hour
        return np.array([_time(stamp) for stamp in stamps], "datetime64[us]")


def _time(stamp: bytes) -> np.datetime64:
    try:
        return np.datetime64(stamp.decode("ascii", "replace"), "us")
    except ValueError:
        return np.datetime64("NaT", "us")


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
    """Return plain integers if every row has one, nullable ones otherwise."""
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


def tables_of_others(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the same two tables for trainers without Megatron lines."""
    if "global_step" in table:
        table["iteration"] = table["global_step"].fillna(table["iteration"])
    if "train_loss" in table:
        table["lm_loss"] = table["lm_loss"].fillna(table["train_loss"])
    table = table.reindex(columns=list(dict.fromkeys([*ITERATION_COLUMNS, *WHERE_COLUMNS, *table])))
    for name in ITERATION_INTEGERS:
        table[name] = as_integers(table[name])
    zeros = np.zeros(len(table), np.int64)
    iteration = table["iteration"].to_numpy(np.float64, na_value=np.nan)
    table["copies"], table["attempt"] = 1, attempts_of(iteration, zeros, zeros)
    return _once(table)
