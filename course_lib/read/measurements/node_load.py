"""`read.monitor`: load of nodes, ranks and devices of a finished or running job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.read import lines
from course_lib.read.files import PathLike, found_files
from course_lib.read.messages import N_
from course_lib.read.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

LOAD_COLUMNS = (
    "node",
    "time_s",
    "cpu_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "network_in_bytes_s",
    "network_out_bytes_s",
)
RANK_COLUMNS = ("node", "rank", "pid", "time_s", "cpu_percent", "slot_percent", "memory_bytes")
DEVICE_COLUMNS = (
    "node",
    "device",
    "time_s",
    "utilisation_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_w",
    "temperature_c",
)
MOST_LOOKS = 2_000_000
_COUNTERS = ("network_in_bytes", "network_out_bytes")


@dataclass(frozen=True)
class Monitor:
    """Load by `time_s` since the first sample of any node. Rates are since the previous sample.

    100 `cpu_percent` are one core, and 100 `slot_percent` are the rate of a device slot. Values
    over 100 are possible, because threads that send and receive count."""

    load: pd.DataFrame
    ranks: pd.DataFrame
    devices: pd.DataFrame
    start_unix_s: float | None = None
    files: tuple[str, ...] = ()


def monitor(path: PathLike | Iterable[PathLike], last_bytes: int | None = None) -> Monitor:
    """Read a run folder, its `monitor` folder, or files of it. An empty record is not an error.

    With `last_bytes`, read only about this number of bytes at the end of each file, for a display
    every second."""
    missing = N_("nothing was monitored at {path}; give a run folder")
    files = found_files(path, ("monitor",), _is_record, missing)
    looks: list[dict[str, Any]] = []
    for file in files:
        for row in lines.json_rows(file, last_bytes):
            if isinstance(row, dict) and _number(row.get("unix_s")) is not None:
                row["node"] = str(row.get("node") or file.name.split(".")[0])
                looks.append(row)
            if len(looks) >= MOST_LOOKS:
                break
    looks.sort(key=lambda row: float(row["unix_s"]))
    start = float(looks[0]["unix_s"]) if looks else None
    ranks = _inner(looks, "ranks", RANK_COLUMNS, start or 0.0)
    ranks["slot_percent"] = ranks["slot_percent"].fillna(ranks["cpu_percent"])
    return Monitor(
        load=_load(looks, start or 0.0),
        ranks=ranks,
        devices=_inner(looks, "devices", DEVICE_COLUMNS, start or 0.0),
        start_unix_s=start,
        files=tuple(str(file) for file in files),
    )


def _is_record(path: Path) -> bool:
    return ".jsonl" in path.name and len(path.parts) == 1


def _number(value: Any) -> float | None:
    plain = type(value) in (int, float) and abs(value) < 2**62  # neither infinite nor NaN
    return float(value) if plain else None


def _load(looks: list[dict[str, Any]], start: float) -> pd.DataFrame:
    import pandas as pd

    before: dict[str, dict[str, Any]] = {}
    rows = []
    for look in looks:
        row: dict[str, Any] = {"node": look["node"], "time_s": float(look["unix_s"]) - start}
        for name in ("cpu_percent", "memory_used_bytes", "memory_total_bytes"):
            row[name] = _number(look.get(name))
        for name in _COUNTERS:
            row[f"{name}_s"] = _rate(before.get(look["node"]), look, name)
        before[look["node"]] = look
        rows.append(row)
    return pd.DataFrame(rows, columns=list(LOAD_COLUMNS))


def _rate(earlier: dict[str, Any] | None, look: dict[str, Any], name: str) -> float | None:
    """Return the rate; None at the first sample, and if a counter restarted."""
    if earlier is None:
        return None
    first, last = _number(earlier.get(name)), _number(look.get(name))
    passed_s = float(look["unix_s"]) - float(earlier["unix_s"])
    if first is None or last is None or last < first or passed_s <= 0:
        return None
    return (last - first) / passed_s


def _inner(
    looks: list[dict[str, Any]], what: str, columns: tuple[str, ...], start: float
) -> pd.DataFrame:
    rows = [
        {name: _number(item.get(name)) for name in columns}
        | {"node": look["node"], "time_s": float(look["unix_s"]) - start}
        for look in looks
        if isinstance(look.get(what), list)
        for item in look[what]
        if isinstance(item, dict)
    ]
    return Rows(columns, {"rank", "pid", "device"} & set(columns), rows).table()
