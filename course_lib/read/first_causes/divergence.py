"""Runs that end in nonsense rather than in an error: NaN losses, a loss scale that only falls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from course_lib.read.files import Source
from course_lib.read.first_causes.result import Failure

if TYPE_CHECKING:
    from course_lib.read.training_logs.result import TrainingLog

HOPELESS_SCALE = 8.0
"""Scales start at 2^16 and above, and settle above 2^8 in a healthy run."""


def diverged(sources: Sequence[Source]) -> Failure | None:
    from course_lib.read.training_logs.reader import TrainingReader

    reader = TrainingReader()
    for source in sources:
        reader.read(source)
    log = reader.result()
    return _nan(log) or _scale(log)


def _nan(log: TrainingLog) -> Failure | None:
    table = log.iterations
    if table.empty or "nan_iterations" not in table:
        return None
    bad = table[table["nan_iterations"].fillna(0) > 0]
    if bad.empty:
        return None
    first = bad.iloc[0]
    text = f"iteration {int(first.iteration)}: number of nan iterations {int(first.nan_iterations)}"
    details = {"iteration": int(first.iteration), "nan_iterations": log.nan}
    return _build("nan_loss", first, text, details)


def _scale(log: TrainingLog) -> Failure | None:
    falls = log.overflows.dropna(subset=["new_loss_scale"])
    if len(falls) < 3 or falls["new_loss_scale"].iloc[-1] > HOPELESS_SCALE:
        return None
    first, last = falls.iloc[0], falls.iloc[-1]
    details = {
        "first_scale": float(first.new_loss_scale),
        "last_scale": float(last.new_loss_scale),
        "overflows": len(falls),
    }
    saw_nan = not log.notes.empty and (log.notes["kind"] == "nan").any()
    text = (
        f"{len(falls)} overflows in a row: loss scale {first.new_loss_scale:g} "
        f"down to {last.new_loss_scale:g}" + (", and NaN in a tensor" if saw_nan else "")
    )
    return _build("nan_loss" if saw_nan else "loss_scale", first, text, details)


def _build(cause: str, row: Any, text: str, details: dict[str, Any]) -> Failure:
    import pandas as pd

    rank = None if pd.isna(row["rank"]) else int(row["rank"])
    return Failure.of(
        cause,
        rank=rank,
        ranks=() if rank is None else (rank,),
        node=None,
        file=str(row["file"]),
        line=int(row["line"]),
        evidence=text,
        details=details,
    )
