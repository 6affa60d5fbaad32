"""`read.links`: results of `measure_links.py` as matrices and fitted lines."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lib.read.files import PathLike
from course_lib.read.messages import NoSuchFileError, _
from course_lib.read.rows import Rows, as_numbers

if TYPE_CHECKING:
    import pandas as pd

RANK_COLUMNS = ("rank", "node", "device", "pid", "pace")
SAMPLE_COLUMNS = (
    "kind",
    "source",
    "destination",
    "size_bytes",
    "repeat",
    "time_us",
    "fastest_us",
    "algorithm",
)
FIT_COLUMNS = ("kind", "source", "destination", "alpha_us", "bandwidth_gb_s", "r2")
LARGEST_FILE_BYTES = 256 << 20
MOST_SAMPLES = 1_000_000
LARGEST_WORLD = 4096
# Range of a message's time; outside of it, a file is damaged.
SHORTEST_US, LONGEST_US = 1e-6, 1e12
# Each reduces the error of alpha on a line without noise ten thousand times.
ITERATIONS = 4


@dataclass(frozen=True)
class Links:
    """Measured links. `samples` has one row per size and pair; an all-reduce over all ranks has no
    source.

    A pair was measured as a round trip, so both directions have the same numbers."""

    backend: str | None
    device: str | None
    world_size: int
    ranks: pd.DataFrame
    samples: pd.DataFrame
    all_reduce_ms: list[float] = field(default_factory=list)
    all_reduce_bytes: int | None = None
    algorithm: str | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def fits(self) -> pd.DataFrame:
        """Return time = alpha + size / bandwidth for each pair (both directions) and for
        all-reduces."""
        import pandas as pd

        rows = []
        keys = ["kind", "source", "destination"]
        for key, group in self.samples.groupby(keys, dropna=False):
            kind, source, destination = key
            alpha_us, bandwidth_gb_s, r2 = fit_line(group["size_bytes"], group["time_us"])
            ends = [(source, destination)]
            if kind == "point_to_point":
                ends.append((destination, source))
            rows += [(kind, *pair, alpha_us, bandwidth_gb_s, r2) for pair in ends]
        table = pd.DataFrame(rows, columns=list(FIT_COLUMNS))
        return table.astype({"source": "Int64", "destination": "Int64"})

    @cached_property
    def latency_us(self) -> pd.DataFrame:
        """Return the usual time of the smallest message, source by destination."""
        return self._matrix("time_us", largest=False)

    @cached_property
    def bandwidth_gb_s(self) -> pd.DataFrame:
        """Return the rate of the largest message (1 GB is 1e9 bytes), source by destination."""
        return self._matrix("rate_gb_s", largest=True)

    def _matrix(self, value: str, largest: bool) -> pd.DataFrame:
        import pandas as pd

        chosen = self.samples[self.samples["kind"] == "point_to_point"].dropna(
            subset=["source", "destination", "time_us"]
        )
        chosen = chosen.assign(rate_gb_s=chosen["size_bytes"] / chosen["time_us"] / 1e3)
        chosen = chosen.sort_values("size_bytes", ascending=not largest)
        table = pd.DataFrame(
            np.nan, index=range(self.world_size), columns=range(self.world_size), dtype=float
        )
        for row in chosen.drop_duplicates(["source", "destination"]).to_dict("records"):
            ends = int(row["source"]), int(row["destination"])
            if min(ends) >= 0 and max(ends) < self.world_size:
                table.loc[ends[0], ends[1]] = table.loc[ends[1], ends[0]] = row[value]
        return table.rename_axis(index="source", columns="destination")

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return latency and bandwidth inside and between nodes: medians over the pairs, latency
        from the smallest message."""
        import pandas as pd

        node = dict(zip(self.ranks["rank"], self.ranks["node"], strict=True))
        pairs = self.fits[self.fits["kind"] == "point_to_point"]
        near = pairs["source"].map(node) == pairs["destination"].map(node)
        rows = []
        for link, chosen in (("inside a node", near), ("between the nodes", ~near)):
            if chosen.any():
                found = pairs[chosen]
                ends = zip(found["source"], found["destination"], strict=True)
                latency_ms = float(np.median([self.latency_us.loc[pair] for pair in ends])) / 1e3
                rows.append((link, latency_ms, float(found["bandwidth_gb_s"].median())))
        return pd.DataFrame(rows, columns=["link", "latency_ms", "bandwidth_gb_s"])


def fit_line(sizes: Sequence[float] | Any, times: Sequence[float] | Any) -> tuple[float, ...]:
    """Return (alpha in us, bandwidth in GB/s, r2) of time = alpha + size / bandwidth.

    The smallest messages give alpha, and least squares through alpha give the bandwidth.
    """
    size, time = np.asarray(sizes, float), np.asarray(times, float)
    good = np.isfinite(size) & (time > SHORTEST_US) & (time < LONGEST_US) & (size > 0)
    size, time = size[good], time[good]
    if not len(size):
        return math.nan, math.nan, math.nan
    if size.min() == size.max():
        return 0.0, float(size.mean() / time.mean() / 1e3), math.nan
    small, largest = size == size.min(), size == size.max()
    alpha, slope = float(np.median(time[small])), 0.0
    for _turn in range(ITERATIONS):
        slope = float((size * (time - alpha)).sum() / (size * size).sum())
        alpha = max(float(np.median((time - slope * size)[small])), 0.0)
    if slope <= 0:  # the small messages took longer than the large ones
        slope, alpha = float(np.median(time[largest]) / size.max()), 0.0
    errors = alpha + size * slope - time
    spread = float(((time - time.mean()) ** 2).sum())
    r2 = 1 - float((errors**2).sum()) / spread if spread else 1.0
    return alpha, 1 / slope / 1e3, r2


def links(path: PathLike) -> Links:
    """Read links.json from `path`: the file, or a run folder that holds it."""
    file = Path(path)
    file = file / "links.json" if file.is_dir() else file
    if not file.is_file():
        raise NoSuchFileError(
            _("{file} does not exist; run measure_links.py as a job to write it", file=file)
        )
    try:
        data = json.loads(file.read_bytes()[:LARGEST_FILE_BYTES])
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        return _build({}, (_("{file} is not a links.json: it has no JSON object", file=file),))
    return _build(data, ())


def _build(data: dict[str, Any], notes: tuple[str, ...]) -> Links:
    ranks = _table(data.get("ranks"), RANK_COLUMNS, ("rank", "pid"))
    ranks["pace"] = as_numbers(ranks["pace"]).astype(float)
    samples = _table(
        data.get("samples"), SAMPLE_COLUMNS, ("source", "destination", "size_bytes", "repeat")
    )
    for name in ("time_us", "fastest_us"):
        samples[name] = as_numbers(samples[name]).astype(float)
    samples = samples[np.isfinite(samples["time_us"]) & samples["size_bytes"].notna()]
    repeated = data.get("all_reduce")
    repeated = repeated if isinstance(repeated, dict) else {}
    times = repeated.get("times_us")
    numbers = (
        [time for time in times if type(time) in (int, float)] if isinstance(times, list) else []
    )
    return Links(
        backend=_text(data.get("backend")),
        device=_text(data.get("device")),
        world_size=_world_size(data.get("world_size"), ranks, samples),
        ranks=ranks,
        samples=samples.reset_index(drop=True),
        all_reduce_ms=[time / 1e3 for time in numbers],
        all_reduce_bytes=_whole(repeated.get("size_bytes")),
        algorithm=_text(repeated.get("algorithm")),
        notes=notes,
    )


def _world_size(stated: Any, ranks: pd.DataFrame, samples: pd.DataFrame) -> int:
    """Return the number of measured ranks. A damaged file must not set the size of a matrix."""
    ends = (samples[name].dropna() for name in ("source", "destination"))
    seen = max([len(ranks), *(int(end.max()) + 1 for end in ends if len(end))])
    return min(seen, stated if type(stated) is int and stated > 0 else seen, LARGEST_WORLD)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 2**62 else None


def _table(given: Any, columns: Sequence[str], integers: Sequence[str]) -> pd.DataFrame:
    """Return the well-formed rows; a field without a number is unknown."""
    rows = Rows(columns, integers)
    for row in (given if isinstance(given, list) else [])[:MOST_SAMPLES]:
        if isinstance(row, dict):
            values = {name: _whole(row.get(name)) for name in integers}
            others = {name: row.get(name) for name in columns if name not in integers}
            rows.add(
                **values, **{k: v for k, v in others.items() if not isinstance(v, list | dict)}
            )
    return rows.table()
