"""`read.flight`: the last collectives of each rank, from torch's flight recorder."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.read.files import PathLike, found_files
from course_lib.read.messages import N_, _

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("rank", "group", "number", "call", "sizes")
LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Flight:
    """Flight records. `table` has a row for each recorded collective; `number` counts within a
    group. Ranks that work together have the same call and sizes at the same number."""

    table: pd.DataFrame

    @property
    def last(self) -> pd.DataFrame:
        """Return the last collective of each rank."""
        return self.table.drop_duplicates("rank", keep="last").reset_index(drop=True)

    @property
    def difference(self) -> dict[int, str]:
        """Return the first calls that differ: rank -> call. Empty if all ranks called the same."""
        for _key, rows in self.table.groupby(["group", "number"], sort=True):
            said = {int(r): f"{c} {s}" for r, c, s in rows[["rank", "call", "sizes"]].values}
            if len(set(said.values())) > 1:
                return said
        return {}

    @property
    def odd(self) -> list[int]:
        """Return the ranks that differ from the majority there, or else the ranks that are
        behind."""
        said = self.difference or {
            int(row["rank"]): str(row["number"]) for _, row in self.last.iterrows()
        }
        counts = Counter(said.values())
        most, count = counts.most_common(1)[0] if counts else ("", 0)
        if len(counts) < 2 or 2 * count <= len(said):
            return []
        return sorted(rank for rank, what in said.items() if what != most)

    def __str__(self) -> str:
        if difference := self.difference:
            return "\n".join(f"rank {rank}: {what}" for rank, what in sorted(difference.items()))
        calls = [
            _(
                "rank {rank}: {number} collectives, the last {call} {sizes}",
                rank=rank,
                number=number,
                call=call,
                sizes=sizes,
            )
            for rank, _group, number, call, sizes in self.last.to_numpy()
        ]
        return "\n".join(calls) or _("no rank has called a collective")


def flight(path: PathLike) -> Flight:
    """Read a run folder, or its folder `flight`."""
    import pandas as pd

    missing = N_(
        'no flight record at {path}; run with environment={{"TORCH_FR_BUFFER_SIZE": "200"}}'
    )
    rows: list[dict[str, Any]] = []
    for file in found_files(path, ("flight",), lambda file: file.suffix == ".json", missing):
        rank = file.stem.removeprefix("rank")
        if rank.isdecimal():
            rows += _rows(int(rank), file)
    return Flight(pd.DataFrame(rows, columns=list(COLUMNS)))


def _rows(rank: int, file: Path) -> list[dict[str, Any]]:
    with file.open("rb") as opened:
        text = opened.read(LARGEST_BYTES)
    try:
        entries = json.loads(text)["entries"]
    except (ValueError, KeyError, TypeError):
        return []
    found = []
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or not entry.get("collective_seq_id"):
            continue
        found.append({
            "rank": rank, "group": str(entry.get("pg_id", "")),
            "number": int(entry["collective_seq_id"]),
            "call": str(entry.get("profiling_name", "?")).rpartition(":")[2],
            "sizes": str(entry.get("input_sizes", "")),
        })  # fmt: skip
    return found
