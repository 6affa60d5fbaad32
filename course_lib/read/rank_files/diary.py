"""`read.diary`: what every rank wrote down each step, side by side, and what does not agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.mistakes.names import answers_misspelt
from course_lib.read import lines
from course_lib.read.files import PathLike, found_files

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "course-diary-1"
COLUMNS = ("rank", "node", "iteration", "step_ms", "own_ms", "loss", "grad_norm", "memory_mib",
           "samples", "weights", "random", "copy", "data")  # fmt: skip
_NUMBERS = ("step_ms", "own_ms", "loss", "grad_norm", "memory_mib")


@answers_misspelt
@dataclass(frozen=True)
class Diary:
    """`table` has a row for each rank and step. `copy` names what ranks hold copies of: ranks with
    the same have the same weights; `data` is their data rank. `findings` say so in words."""

    table: pd.DataFrame
    vocabulary: int | None = None

    @property
    def findings(self) -> list[Any]:
        from course_lib.read.rank_files.findings import findings

        return findings(self)

    def beside(self, column: str) -> pd.DataFrame:
        """One column of the diary: a row for each step, a column for each rank."""
        return self.table.pivot_table(
            index="iteration", columns="rank", values=column, aggfunc="last"
        )


def diary(path: PathLike) -> Diary:
    """A run folder, or its folder `diary`."""
    import pandas as pd

    missing = "no diary at {}; give the folder of a run whose recipe has diary=True"
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
    """What is no number here was none there: JSON writes nan as a text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
