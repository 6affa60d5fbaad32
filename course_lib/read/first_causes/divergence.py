"""Runs that end without an error but with useless numbers: NaN losses, a falling loss scale."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.read import lines
from course_lib.read.first_causes.causes import Failure
from course_lib.read.messages import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.read.training_logs.result import TrainingLog

LEAST_WITHOUT_LOSS = 3
_LOST = re.compile(
    rb"(?i)(?:loss|grad[ _]norm)[\"']?\s{0,4}[:=]?\s{0,4}[\"']?[-+]?(?:(?:nan|inf(?:inity)?)\b|"
    rb"1\.#(?:QNAN|IND|INF))"
)
# Scales start at 2^16 and above, and settle above 2^8 in a healthy run.
HOPELESS_SCALE = 8.0


def diverged(log: TrainingLog) -> Failure | None:
    return _counted(log) or _lost(log) or _without_gradients(log) or _scale(log)


def _counted(log: TrainingLog) -> Failure | None:
    bad = log.iterations[log.iterations["nan_iterations"].fillna(0) > 0]
    if bad.empty:
        return None
    first = bad.iloc[0]
    text = _(
        "iteration {iteration}: number of nan iterations {nan_iterations}",
        iteration=int(first.iteration),
        nan_iterations=int(first.nan_iterations),
    )
    details = {"iteration": int(first.iteration), "nan_iterations": log.nan}
    return _build("nan_loss", first, text, details)


def _lost(log: TrainingLog) -> Failure | None:
    """Find a NaN loss. Without a loss scale Megatron-LM counts no NaN and does not print a NaN
    loss: from some iteration to the end, no loss is finite although no step was skipped."""
    begin, rest = _after_numbers(log, "lm_loss")
    bad = rest[(rest["skipped_iterations"].fillna(0) == 0).to_numpy()]
    if bad.empty:
        return None
    first = bad.iloc[0]
    printed = _printed_loss(first)
    if not printed and (not begin or len(bad) < LEAST_WITHOUT_LOSS):
        return None
    return _to_the_end(first, printed or _("no loss is printed"))


def _without_gradients(log: TrainingLog) -> Failure | None:
    """Find lost gradients. Some trainers print a loss of 0 instead of NaN: from some step to the
    end no gradient norm is finite, but it was before, or the loss is 0."""
    begin, rest = _after_numbers(log, "grad_norm")
    broken = begin > 0 or (rest["lm_loss"] == 0).all()
    if len(rest) < LEAST_WITHOUT_LOSS or rest["skipped_iterations"].any() or not broken:
        return None
    first = rest.iloc[0]
    printed = _printed_loss(first)
    return _to_the_end(first, printed) if printed else None


def _after_numbers(log: TrainingLog, column: str) -> tuple[int, pd.DataFrame]:
    """Return the rows after the last finite value of a column, and the index of the first."""
    import numpy as np

    finite = np.flatnonzero(np.isfinite(log.iterations[column].to_numpy(float)))
    begin = int(finite[-1]) + 1 if len(finite) else 0
    return begin, log.iterations.iloc[begin:]


def _printed_loss(row: Any) -> str:
    """Return the log's text about a loss or gradient that is not a number, or ""."""
    found = _LOST.search(_text_of(str(row["file"]), int(row["line"])))
    return found[0].decode("utf-8", "replace") if found else ""


def _to_the_end(first: Any, said: str) -> Failure:
    text = _(
        "from iteration {iteration} to the end of the log: {said}",
        iteration=int(first.iteration),
        said=said,
    )
    return _build("nan_loss", first, text, {"iteration": int(first.iteration)})


def _text_of(file: str, wanted: int) -> bytes:
    """Return one line of a file by its number."""
    before = 0
    for block in lines.blocks(Path(file)):
        count = block.count(b"\n")
        if before + count >= wanted:
            return block.split(b"\n", wanted - before)[wanted - before - 1]
        before += count
    return b""


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
    text = _(
        "{falls} overflows in a row: loss scale {first:g} down to {last:g}",
        falls=len(falls),
        first=first.new_loss_scale,
        last=last.new_loss_scale,
    ) + (_(", and NaN in a tensor") if saw_nan else "")
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
