"""The steps of a pipeline as memory traces and profiles recorded them, in one table."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.schedules.timing import COLUMNS
from course_lib.show import tables
from course_lib.show.style import CATEGORY

_NUMBER = re.compile(r"\d+")


def measured(source: Any, step: int | None = None) -> pd.DataFrame:
    """Table for `pipeline` from what read.memory or read.profile returned, or their tables."""
    rows = pd.concat([_phases(source), _spans(source)], ignore_index=True)
    rows = rows.dropna(subset=["micro_batch"])
    rows = rows[rows["phase"].isin(list(CATEGORY))]
    if step is None and rows["step"].notna().any():
        step = int(rows["step"].dropna().iloc[-1])
    if step is not None:
        rows = rows[rows["step"] == step]
    if rows.empty:
        raise ArgumentError(
            "no forward or backward of a micro-batch was recorded"
            + (f" in step {step}" if step is not None else "")
            + "; run the job with the profiler or the memory trace on"
        )
    return rows.reindex(columns=COLUMNS).reset_index(drop=True)


def _phases(source: Any) -> pd.DataFrame:
    """Memory traces of several ranks have clocks of their own; their headers align them."""
    parts = []
    ranks = getattr(source, "ranks", ())
    ranks = ranks if isinstance(ranks, tuple | list) else ()
    ranks = [line for line in ranks if hasattr(line, "phases")]  # of a profile they are numbers
    first_ns = min((int(line.start_unix_ns or 0) for line in ranks), default=0)
    for line in ranks:
        shift_us = (int(line.start_unix_ns or 0) - first_ns) / 1000
        phases = line.phases
        parts.append(
            pd.DataFrame(
                {
                    "start": (tables.numbers(phases["begin_us"]) + shift_us) / 1000,
                    "end": (tables.numbers(phases["end_us"]) + shift_us) / 1000,
                    "stage": line.rank,
                    "micro_batch": tables.numbers(phases["micro_batch"]),
                    "chunk": tables.numbers(phases["chunk"]) if "chunk" in phases else np.nan,
                    "phase": phases["phase"].astype(str),
                    "step": tables.numbers(phases["step"]),
                }
            )
        )
    return pd.concat(parts) if parts else pd.DataFrame(columns=[*COLUMNS, "step"])


def _spans(source: Any) -> pd.DataFrame:
    spans = source if isinstance(source, pd.DataFrame) else getattr(source, "spans", None)
    if not isinstance(spans, pd.DataFrame) or not {"rank", "name", "begin_us"} <= set(spans):
        return pd.DataFrame(columns=[*COLUMNS, "step"])
    names = spans["name"].astype(str).str.lower()
    phase = names.str.extract(r"(input|weight)", expand=False).fillna(
        names.str.extract(r"(forward|backward)", expand=False)
    )
    number = names.map(lambda name: float(m.group()) if (m := _NUMBER.search(name)) else np.nan)
    return pd.DataFrame(
        {
            "start": tables.numbers(spans["begin_us"]) / 1000,
            "end": tables.numbers(spans["end_us"]) / 1000,
            "stage": spans["rank"].to_numpy(),
            "micro_batch": number.to_numpy(),
            "chunk": tables.numbers(names.str.extract(r"chunk (\d+)", expand=False)),
            "phase": phase.to_numpy(),
            "step": tables.numbers(spans["step"]) if "step" in spans else np.nan,
        }
    )
