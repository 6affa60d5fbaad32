"""From the views of single ranks to communicators and their tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from course_lib.read.nccl_logs.collected import Collected
from course_lib.read.nccl_logs.communicators import (
    communicator_numbers,
    communicators,
    renumbered,
    rings,
)
from course_lib.read.nccl_logs.result import (
    CHANNEL_COLUMNS,
    OPERATION_COLUMNS,
    RANK_COLUMNS,
    NcclLog,
)
from course_lib.read.rows import Rows

_ROWS_AT_ONCE = 1 << 16
"""What is made of them fits a processor's cache."""


def build(collected: Collected) -> NcclLog:
    number = communicator_numbers(collected)
    channels = _channels(collected, number)
    ranks = _ranks(collected, number, channels)
    ring_table = rings(collected, number)
    trees = renumbered(collected.trees, number)
    operations = [(*key, count) for key, count in sorted(collected.operations.items())]
    return NcclLog(
        library=collected.library,
        versions=tuple(collected.versions),
        hosts=tuple(collected.hosts),
        network=collected.network,
        environment=dict(collected.environment),
        communicators=communicators(collected, number, channels, ring_table),
        ranks=ranks,
        channels=channels,
        rings=ring_table.drop(columns="total", errors="ignore"),
        trees=trees,
        warnings=collected.warnings.table(),
        operations=pd.DataFrame(operations, columns=list(OPERATION_COLUMNS)),
        tests=collected.tests.table(),
        average_bus_bandwidth_gb_s=collected.average,
        simulated=collected.simulated,
        lines=collected.lines,
        files=tuple(collected.files),
    )


def _channels(collected: Collected, number: list[int]) -> pd.DataFrame:
    rows, links = collected.rows, collected.links
    if not len(rows.slot):
        return pd.DataFrame(columns=list(CHANNEL_COLUMNS))
    link = np.frombuffer(rows.link, np.intc)
    slot = _corrected(collected, np.frombuffer(rows.slot, np.intc), link)
    hosts = list(collected.hosts)
    of_slot = {host: place for place, host in enumerate(hosts)}
    host = np.array([of_slot.get(item.host, -1) for item in collected.slots], np.int32)
    host = host.astype(np.min_scalar_type(-len(hosts) - 1))
    data: dict[str, Any] = {
        "communicator": np.array(number, np.int32)[slot],
        "channel": np.frombuffer(rows.channel, np.intc),
        "source": _of_link(link, [item.source for item in links]),
        "destination": _of_link(link, [item.destination for item in links]),
        "source_device": _names(link, [item.source_device for item in links]),
        "destination_device": _names(link, [item.destination_device for item in links]),
        "direction": _names(link, [item.direction for item in links]),
        "transport": _names(link, [item.transport for item in links]),
        "raw": _names(link, [item.raw for item in links]),
        "nic": _maybe(link, [item.nic for item in links]),
        "gdrdma": np.array([item.gdrdma for item in links])[link],
        "through": _maybe(link, [item.through for item in links]),
        "host": pd.Categorical.from_codes(host[slot], pd.Index(hosts, dtype=str), validate=False),
        "line": np.frombuffer(rows.line, np.int64),
    }
    return pd.DataFrame(data, copy=False)


def _corrected(collected: Collected, slot: Any, link: Any) -> Any:
    """Threads that connect after a communicator is ready do not say for which one they do; the
    rank that must be their own does."""
    ends = (
        item.destination if item.direction == "receive" else item.source for item in collected.links
    )
    own = np.array(list(ends), np.int32)
    comms = [item.comm for item in collected.slots]
    rank = np.array([-1 if comm is None else comm.rank for comm in comms], np.int32)
    wrong = np.zeros(len(slot), np.bool_)
    for first in range(0, len(slot), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        said = rank[slot[rows]]
        wrong[rows] = (said >= 0) & (said != own[link[rows]])
    if not wrong.any():
        return slot
    pairs, place = np.unique(np.stack([slot[wrong], link[wrong]]), axis=1, return_inverse=True)
    better = np.array([_better(collected, *pair) for pair in pairs.T.tolist()], np.intc)
    slot = slot.copy()
    slot[wrong] = better[place.reshape(-1)]
    return slot


def _better(collected: Collected, slot: int, link: int) -> int:
    """Another communicator of the same process in which the link makes sense."""
    found, item = collected.links[link], collected.slots[slot]
    own = found.destination if found.direction == "receive" else found.source
    same = (item.host, item.pid, item.device)
    for number in reversed(collected.threads.slots_at.get(same, [])):
        comm = collected.slots[number].comm
        fits = comm is not None and comm.rank == own
        if fits and comm is not None and comm.size > max(found.source, found.destination):
            return number
    return slot


def _of_link(link: Any, values: list[int]) -> Any:
    return np.array(values, np.int32)[link]


def _maybe(link: Any, values: list[int | None]) -> Any:
    known = np.array([value is not None for value in values])
    if not known.any():
        return pd.arrays.IntegerArray(np.zeros(len(link), np.int32), np.ones(len(link), np.bool_))
    plain = np.array([value or 0 for value in values], np.int32)
    return pd.arrays.IntegerArray(plain[link], ~known[link])


def _names(link: Any, values: list[str | None]) -> Any:
    known = sorted({value for value in values if value is not None})
    place = {value: code for code, value in enumerate(known)}
    codes = np.array([place.get(value, -1) if value else -1 for value in values], np.int32)
    codes = codes.astype(np.min_scalar_type(-len(known) - 1))
    return pd.Categorical.from_codes(codes[link], pd.Index(known, dtype=str), validate=False)


def _ranks(collected: Collected, number: list[int], channels: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "communicator": number[place],
            "rank": slot.comm.rank,
            "host": slot.host,
            "pid": slot.pid,
            "cuda_device": _integer(slot.comm.parts.get("cudaDev"), slot.device),
            "nvml_device": _integer(slot.comm.parts.get("nvmlDev"), None),
            "bus_id": slot.comm.parts.get("busId"),
        }
        for place, slot in enumerate(collected.slots)
        if slot.comm is not None
    ]
    if not rows:
        rows = _from_tests(collected) or _from_channels(collected, channels)
    whole = ["communicator", "rank", "pid", "cuda_device", "nvml_device"]
    table = Rows(RANK_COLUMNS, whole, rows).table()
    table = table.drop_duplicates(["communicator", "rank"])
    return table.sort_values(["communicator", "rank"], ignore_index=True)


def _integer(text: str | None, otherwise: int | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else otherwise


def _from_tests(collected: Collected) -> list[dict[str, Any]]:
    return [
        {
            "communicator": 0,
            "rank": rank,
            "host": host,
            "pid": pid,
            "cuda_device": device,
            "bus_id": bus,
        }
        for rank, pid, host, device, bus in collected.test_ranks
    ]


def _from_channels(collected: Collected, channels: pd.DataFrame) -> list[dict[str, Any]]:
    """A part of a log without its `comm` lines: the sender (or receiver) prints for itself."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    kinds = ["communicator", "source", "destination", "direction", "host"]
    rows: Any = channels[kinds].drop_duplicates().itertuples()
    for row in rows:
        own = row.destination if row.direction == "receive" else row.source
        key = (int(row.communicator), int(own))
        found.setdefault(key, {"communicator": key[0], "rank": key[1], "host": row.host})
    return list(found.values())
