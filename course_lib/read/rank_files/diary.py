"""`read.diary`: the diaries of all ranks side by side, and faults that end no run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.read import lines
from course_lib.read.files import PathLike, found_files
from course_lib.read.messages import N_, _

if TYPE_CHECKING:
    import pandas as pd


# Factor over the others' own time that is not due to chance.
SLOWER = 1.6
# Factor over the first loss that is more than one bad step.
WORSE = 3.0
# The loss of an untrained model is near ln(vocabulary).
SHARE_OFF_START = 0.1
LEAST_SLOPE_MIB = 0.5
# Fewer steps may be due to chance.
STEPS_OF_A_HABIT = 5
MOST_STEPS = 2 / 3


@dataclass(frozen=True)
class DiaryFinding:
    """Finding in a diary. `kind` is an identifier; `rank` is None if no single rank differs."""

    kind: str
    text: str
    rank: int | None = None
    node: str | None = None
    iteration: int | None = None

    def __str__(self) -> str:
        return self.text


def findings(diary: Diary) -> list[DiaryFinding]:
    if diary.table.empty:
        return []
    looks = (_nan, _diverged, _skipped, _weights, _samples, _order, _slow, _memory, _start)
    return [found for look in looks for found in look(diary)]


def _found(
    diary: Diary,
    kind: str,
    text: str,
    rank: int | None = None,
    iteration: int | None = None,
    **values: Any,
) -> DiaryFinding:
    """Return a finding with the node of its rank."""
    rows = diary.table[diary.table["rank"] == rank]
    node = None if rank is None else str(rows["node"].iloc[0])
    said = _(text, rank=rank, node=node, iteration=iteration, **values)
    return DiaryFinding(kind, said, rank, node, iteration)


def _nan(diary: Diary) -> Iterator[DiaryFinding]:
    """Find the first loss that is NaN, before losses are summed."""
    table = diary.table
    broken = table[table["loss"].isna() & table["grad_norm"].isna()]
    first = broken[broken["iteration"] == broken["iteration"].min()]
    if len(first) > 1:  # all ranks: not a single sample
        text = N_("the loss of {first} ranks is not a number at iteration {number}")
        number = int(first["iteration"].iloc[0])
        yield _found(diary, "nan", text, None, number, first=len(first), number=number)
    elif len(first):
        row = first.iloc[0]
        text = N_(
            "the first loss that is not a number is the loss of rank {rank} ({node}) at iteration "
            "{iteration}, samples {samples}"
        )
        rank, iteration = int(row["rank"]), int(row["iteration"])
        yield _found(diary, "nan", text, rank, iteration, samples=row["samples"])


def _diverged(diary: Diary) -> Iterator[DiaryFinding]:
    """Find a step in which all ranks' own losses are too large, which no single sample causes."""
    losses = diary.beside("loss").dropna()
    before = float(losses.iloc[0].mean()) if len(losses) else math.nan
    left = losses[losses.min(axis=1) > WORSE * before]
    if not left.empty:
        text = N_(
            "the losses of all ranks rise to {loss:.3g} and more at iteration "
            "{number}, from {before:.3g} at first"
        )
        number, loss = int(str(left.index[0])), left.iloc[0].min()
        yield _found(diary, "diverged", text, None, number, loss=loss, number=number, before=before)


def _skipped(diary: Diary) -> Iterator[DiaryFinding]:
    """Find a rank that continued without a step that the others made."""
    made = {int(str(rank)): set(rows["iteration"]) for rank, rows in diary.table.groupby("rank")}
    every = set().union(*made.values())
    for rank, steps in made.items():
        left_out = sorted(int(step) for step in every - steps if step < max(steps))
        if left_out and all(left_out[0] in others for who, others in made.items() if who != rank):
            text = N_("rank {number} ({node}) skipped step {left_out} and continued")
            step = left_out[0]
            yield _found(diary, "skipped", text, rank, step, number=rank, left_out=step)


def _weights(diary: Diary) -> Iterator[DiaryFinding]:
    """Find copies of the same weights that differ between ranks."""
    table = diary.table.dropna(subset=["weights"])
    for (iteration, copy), rows in table.groupby(["iteration", "copy"]):
        if rows["weights"].nunique() > 1:
            rank = _odd(rows, "weights")
            who = f"rank {rank}" if rank is not None else _("some ranks")
            text = N_("the weights of {who} differ after iteration {iteration} ({copy})")
            yield _found(diary, "weights", text, rank, int(str(iteration)), who=who, copy=copy)
            return


def _odd(rows: Any, column: str) -> int | None:
    """Return the single rank with a different value, if all others agree."""
    counts = rows[column].value_counts()
    if len(counts) != 2 or counts.iloc[-1] != 1 or counts.iloc[0] < 2:
        return None
    return int(rows[rows[column] == counts.index[-1]]["rank"].iloc[0])


def _samples(diary: Diary) -> Iterator[DiaryFinding]:
    """Find data ranks that read the same samples, or draw the same random numbers for their
    dropout."""
    for column, said in (
        ("samples", N_("have read the same samples")),
        ("random", N_("have drawn the same random numbers")),
    ):
        table = diary.table[diary.table[column].notna() & (diary.table[column] != "")]
        found = 0
        for _key, rows in table.groupby(["iteration", "copy"]):
            one_each = rows.drop_duplicates("data")
            found += len(one_each) > 1 and one_each[column].nunique() < len(one_each)
        steps = table["iteration"].nunique()
        if steps and 2 * found > steps:
            text = N_("ranks {said} in {found} of {steps} steps")
            yield _found(diary, f"same_{column}", text, said=said, found=found, steps=steps)


def _order(diary: Diary) -> Iterator[DiaryFinding]:
    """Find epochs in the same order: the samples of all steps repeat with a period."""
    steps = diary.table.sort_values("rank").groupby("iteration")["samples"].agg(" ".join)
    period = steps.nunique()
    if 2 <= period <= len(steps) - 2 and (steps.iloc[period:] == steps.iloc[:-period].values).all():
        text = N_("after {period} steps the same samples repeat in the same order")
        yield _found(diary, "same_order", text, None, period + 1, period=period)


def _slow(diary: Diary) -> Iterator[DiaryFinding]:
    """Find a rank that takes longer in most steps; a few slow steps are due to the machine."""
    own = diary.beside("own_ms").iloc[1:].dropna()
    if len(own.columns) < 3 or len(own) < STEPS_OF_A_HABIT:
        return
    rank = int(str(own.median().idxmax()))
    times = own[rank] / own.drop(columns=rank).median(axis=1)
    factor = float(times.median())
    if factor > SLOWER and (times > SLOWER).mean() > MOST_STEPS:
        text = N_("rank {rank} ({node}) computes {factor:.1f} times as long as the other ranks")
        yield _found(diary, "slow", text, rank, factor=factor)


def _memory(diary: Diary) -> Iterator[DiaryFinding]:
    """Find memory that grows with every step, on the rank with the fastest growth."""
    slopes = {}
    for rank, rows in diary.table.groupby("rank"):
        rises = rows.sort_values("iteration")["memory_mib"].dropna().iloc[1:].diff().dropna()
        if len(rises) >= STEPS_OF_A_HABIT and (rises > LEAST_SLOPE_MIB).mean() > MOST_STEPS:
            slopes[int(str(rank))] = float(rises.median())
    if slopes:
        rank = max(slopes, key=lambda r: slopes[r])
        text = N_("the memory of rank {rank} ({node}) grows by {slopes:.1f} MiB each step")
        yield _found(diary, "memory", text, rank, slopes=slopes[rank])


def _start(diary: Diary) -> Iterator[DiaryFinding]:
    """Find a first loss that is not near the loss of an untrained model."""
    first = diary.table[diary.table["iteration"] == diary.table["iteration"].min()]["loss"].mean()
    even = math.log(diary.vocabulary) if diary.vocabulary else math.nan
    if abs(first / even - 1) > SHARE_OFF_START:
        text = N_("the first loss is {first:.2f}, not ln({vocabulary}) = {even:.2f}")
        yield _found(diary, "start", text, first=first, vocabulary=diary.vocabulary, even=even)


FORMAT = "course-diary-1"
COLUMNS = ("rank", "node", "iteration", "step_ms", "own_ms", "loss", "grad_norm", "memory_mib",
           "samples", "weights", "random", "copy", "data")  # fmt: skip
_NUMBERS = ("step_ms", "own_ms", "loss", "grad_norm", "memory_mib")


@dataclass(frozen=True)
class Diary:
    """Diaries of all ranks. `table` has a row for each rank and step. Ranks with the same `copy`
    have equal weights; `data` is their data rank. `findings` are messages about differences."""

    table: pd.DataFrame
    vocabulary: int | None = None

    @property
    def findings(self) -> list[DiaryFinding]:
        return findings(self)

    def beside(self, column: str) -> pd.DataFrame:
        """Return one column of the diary: a row for each step, a column for each rank."""
        return self.table.pivot_table(
            index="iteration", columns="rank", values=column, aggfunc="last"
        )


def diary(path: PathLike) -> Diary:
    """Read a run folder, or its folder `diary`."""
    import pandas as pd

    missing = N_("no diary at {path}; give the folder of a run whose recipe has diary=True")
    rows: list[dict[str, Any]] = []
    vocabulary = None
    for file in found_files(path, ("diary",), lambda file: file.suffix == ".jsonl", missing):
        head: dict[str, Any] = {}
        for row in lines.json_rows(file):
            if isinstance(row, dict) and row.get("format") == FORMAT:
                head = _who(row)
                vocabulary = row.get("vocabulary") or vocabulary
            elif isinstance(row, dict) and head and "iteration" in row:
                rows.append(head | _step(row))
    return Diary(pd.DataFrame(rows, columns=list(COLUMNS)), vocabulary)


def _who(row: dict[str, Any]) -> dict[str, Any]:
    layout = row.get("layout") or {}
    copy = f"tensor {layout.get('tensor', 0)}, pipeline {layout.get('pipeline', 0)}"
    return {"rank": row.get("rank"), "node": row.get("node"), "copy": copy,
            "data": layout.get("data", 0)}  # fmt: skip


def _step(row: dict[str, Any]) -> dict[str, Any]:
    found = {name: row.get(name) for name in ("iteration", "weights", "random")}
    found["samples"] = " ".join(map(str, row.get("samples") or ()))
    return found | {name: _number(row.get(name)) for name in _NUMBERS}


def _number(value: Any) -> float:
    """Return a number, or nan for anything else: JSON writes nan as a text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
