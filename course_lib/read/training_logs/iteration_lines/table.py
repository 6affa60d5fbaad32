"""From collected columns to the table of iterations; kept lean, since logs have a million rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from course_lib.read.files import Source
from course_lib.read.prefix import Prefix
from course_lib.read.rows import as_integers
from course_lib.read.training_logs.iteration_lines.collected_rows import IterationRows, attempts_of
from course_lib.read.training_logs.result import (
    ITERATION_COLUMNS,
    ITERATION_INTEGERS,
    WHERE_COLUMNS,
)

Ints = npt.NDArray[np.int64]


def build(
    rows: IterationRows, sources: Sequence[Source], last: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`last`: the rows are not needed any more, so that they are given up column by column."""
    if not rows.rows:
        empty = pd.DataFrame(columns=[*ITERATION_COLUMNS, *WHERE_COLUMNS], dtype=float)
        return empty, empty.copy()
    printer, line = rows.printer.values(last), rows.line.values(last)
    file = np.array([number for _, number in rows.printers], np.int32)[printer]
    iteration = rows.columns.take("iteration", last=False)
    data: dict[str, Any] = {
        "timestamp": rows.stamp.values(last),
        "attempt": attempts_of(iteration, rows.start.values(last), file),
        "line": line,
    }
    del iteration
    data |= _numbers(rows, file, line, last) | _where(rows, printer, file, sources)
    numbers = [name for name in data if name not in WHERE_COLUMNS]
    order = [*numbers, *WHERE_COLUMNS]
    return _once(pd.DataFrame({name: data[name] for name in order}, copy=False))


def _numbers(rows: IterationRows, file: Ints, line: Ints, last: bool) -> dict[str, Any]:
    given = set(rows.columns.parts)
    extra = [name for name in rows.columns.parts if name not in ITERATION_COLUMNS]
    patched = {name for _, _, name, _ in rows.patches}
    data: dict[str, Any] = {}
    for name in (*ITERATION_COLUMNS, *extra):
        if name not in given and name not in patched:
            data[name] = np.full(rows.rows, np.nan, np.float32)
            continue
        known = name in given
        column = rows.columns.take(name, last) if known else np.full(rows.rows, np.nan)
        if name in patched:
            _patch(column, rows, name, (file, line))
        data[name] = _integers(column) if name in ITERATION_INTEGERS else column
    return data


def _patch(
    column: npt.NDArray[np.float64], rows: IterationRows, name: str, places: tuple[Ints, Ints]
) -> None:
    """What a later line says belongs to the last row before it in the same file."""
    file, line = places
    for number, after, what, value in rows.patches:
        first, last = np.searchsorted(file, [number, number + 1])
        row = first + int(np.searchsorted(line[first:last], after)) - 1
        if what == name and row >= first:
            column[row] = value


def _integers(column: npt.NDArray[np.float64]) -> Any:
    """Plain integers where every row has one, nullable ones otherwise."""
    unknown = ~(np.abs(column) < 2.0**62)
    if not unknown.any():
        return column.astype(np.int64)
    return pd.arrays.IntegerArray(np.where(unknown, 0, column).astype(np.int64), unknown)


def _where(
    rows: IterationRows, printer: Any, file: Ints, sources: Sequence[Source]
) -> dict[str, Any]:
    guessed = ranks_of([found for found, _ in rows.printers])
    named = [sources[number].rank for _, number in rows.printers]
    ranks = [name if rank is None else rank for rank, name in zip(guessed, named, strict=True)]
    known = np.array([rank is not None for rank in ranks])
    rank = np.array([rank or 0 for rank in ranks], np.int32)
    nodes = [found.node for found, _ in rows.printers]
    names = sorted({node for node in nodes if node})
    codes = np.array([names.index(node) if node else -1 for node in nodes], np.int32)
    return {
        "rank": pd.arrays.IntegerArray(rank[printer], ~known[printer]),
        "node": pd.Categorical.from_codes(codes[printer], pd.Index(names, dtype=str)),
        "copies": np.ones(rows.rows, np.int32),
        "file": _categories(file, [source.name for source in sources]),
    }


def _categories(codes: Ints, names: Sequence[str]) -> Any:
    known = list(dict.fromkeys(names))
    place = np.array([known.index(name) for name in names], np.int32)
    return pd.Categorical.from_codes(place[codes], pd.Index(known, dtype=str))


def ranks_of(prefixes: Sequence[Prefix]) -> list[int | None]:
    """Ranks as printed; a bare label of `srun` is a rank only where no local ranks are seen."""
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


def build_others(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same two tables for trainers that print no Megatron line."""
    table = table.reindex(columns=list(dict.fromkeys([*ITERATION_COLUMNS, *WHERE_COLUMNS, *table])))
    for name in ITERATION_INTEGERS:
        table[name] = as_integers(table[name])
    zeros = np.zeros(len(table), np.int64)
    iteration = table["iteration"].to_numpy(np.float64, na_value=np.nan)
    table["copies"], table["attempt"] = 1, attempts_of(iteration, zeros, zeros)
    return _once(table)
