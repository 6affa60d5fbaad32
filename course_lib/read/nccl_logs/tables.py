"""Tables of communicators, assembled from the views of single ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from course_lib.read.nccl_logs.collected import Collected, Slot
from course_lib.read.nccl_logs.result import (
    CHANNEL_COLUMNS,
    COMMUNICATOR_COLUMNS,
    OPERATION_COLUMNS,
    RANK_COLUMNS,
    NcclLog,
)
from course_lib.read.rows import Rows, as_integers

if TYPE_CHECKING:
    import pandas as pd


Key = tuple[Any, ...]


def communicator_numbers(collected: Collected) -> list[int]:
    """Return each slot's communicator, counted from 0 in the order of the log.

    New versions print an id. Without one, the k-th communicator of a given size that a process
    joins is matched with the k-th of the others, one member for each rank. A slot without a named
    communicator belongs to the largest."""
    keys = [_key(slot) for slot in collected.slots]
    members: dict[Key, dict[int, Key]] = defaultdict(dict)
    for slot, key in zip(collected.slots, keys, strict=True):
        if key is not None and slot.comm is not None:
            members[key][slot.comm.rank] = _place(slot)
    joined: dict[Key, int] = defaultdict(int)
    for number, slot in enumerate(collected.slots):
        if keys[number] is None and slot.comm is not None:
            keys[number] = _matched(slot, members, joined)
    largest = max(members, key=lambda key: (key[0], len(members[key])), default=(0,))
    numbers: dict[Key, int] = {}
    return [numbers.setdefault(largest if key is None else key, len(numbers)) for key in keys]


def _place(slot: Slot) -> Key:
    return slot.host, slot.pid, slot.device


def _key(slot: Slot) -> Key | None:
    if slot.comm is None or "commId" not in slot.comm.parts:
        return None
    return slot.comm.size, slot.comm.parts["commId"]


def _matched(slot: Slot, members: dict[Key, dict[int, Key]], joined: dict[Key, int]) -> Key:
    assert slot.comm is not None
    size, rank = slot.comm.size, slot.comm.rank
    for key, ranks in members.items():
        has_id = key[0] == size and isinstance(key[1], str)
        if has_id and ranks.setdefault(rank, _place(slot)) == _place(slot):
            return key
    turn = joined[(*_place(slot), size)]
    joined[(*_place(slot), size)] += 1
    group = 0
    while rank in members[size, turn, group]:
        group += 1
    members[size, turn, group][rank] = _place(slot)
    return size, turn, group


def renumbered(rows: Rows, number: list[int]) -> pd.DataFrame:
    table = rows.table()
    table["communicator"] = [number[slot] for slot in table["communicator"]]
    for name in ("communicator", "channel", "rank", "parent", "line"):
        if name in table:
            table[name] = as_integers(table[name])
    return table


def sizes(collected: Collected, number: list[int]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for place, slot in enumerate(collected.slots):
        if slot.comm is not None:
            found[number[place]] = max(found[number[place]], slot.comm.size)
    return found


def rings(collected: Collected, number: list[int]) -> pd.DataFrame:
    """Return the rings; NCCL prints only the first ranks of a long one, which is truncated."""
    table = renumbered(collected.rings, number)
    known = sizes(collected, number)
    orders: list[tuple[int, ...]] = list(table["order"])
    keys = [int(key) for key in table["communicator"]]
    for key, order in zip(keys, orders, strict=True):
        known[key] = max(known[key], max(order, default=-1) + 1)
    table["truncated"] = [len(order) < known[key] for key, order in zip(keys, orders, strict=True)]
    return table


def communicators(
    collected: Collected, number: list[int], channels: pd.DataFrame, ring_table: pd.DataFrame
) -> pd.DataFrame:
    slots: dict[int, list[Slot]] = defaultdict(list)
    for place, slot in enumerate(collected.slots):
        slots[number[place]].append(slot)
    most = _largest(channels, len(set(number)))
    used = {int(key) for key in (*np.flatnonzero(most[0] >= 0), *ring_table["communicator"])}
    algorithms = "+".join(sorted({name for _, _, name, _ in collected.operations})) or None
    rows = []
    for key, members in sorted(slots.items()):
        if key in used or any(slot.comm for slot in members):
            my_rings = ring_table[ring_table["communicator"] == key]
            row = _communicator(members, [int(values[key]) for values in most], my_rings)
            rows.append({"communicator": key, "algorithm": algorithms, **row})
    whole = ["communicator", "size", "ranks_seen", "nodes", "channels"]
    return Rows(COMMUNICATOR_COLUMNS, whole, rows).table()


def _largest(channels: pd.DataFrame, count: int) -> list[npt.NDArray[np.int32]]:
    """Return each communicator's largest channel, source and destination (-1 without channels)."""
    found = [np.full(count, -1, np.int32) for _ in range(3)]
    if len(channels):
        key = channels["communicator"].to_numpy()
        begin = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))  # ranks print in runs
        for values, name in zip(found, ("channel", "source", "destination"), strict=True):
            runs = np.maximum.reduceat(channels[name].to_numpy(), begin)
            np.maximum.at(values, key[begin].astype(np.intp), runs.astype(np.int32))
    return found


def _communicator(members: list[Slot], most: list[int], ring_table: pd.DataFrame) -> dict[str, Any]:
    """Return a row; `most` has the largest channel, source and destination (-1: none)."""
    known = [slot for slot in members if slot.comm is not None]
    comms = [slot.comm for slot in known if slot.comm is not None]
    seen = [number + 1 for number in most[1:] if number >= 0]
    seen += [max(order) + 1 for order in list(ring_table["order"])]
    totals = [int(total) for total in list(ring_table["total"].dropna())] if len(ring_table) else []
    if most[0] >= 0 and not totals:
        totals = [most[0] + 1]
    states = {comm.state for comm in comms}
    nodes = [int(text) for comm in comms if (text := comm.parts.get("nNodes", "")).isdecimal()]
    counts = {name: value for slot in members for name, value in slot.counts.items()}
    return {
        "label": next((comm.parts["commId"] for comm in comms if "commId" in comm.parts), None),
        "size": max([comm.size for comm in comms], default=max(seen, default=None)),
        "ranks_seen": len({comm.rank for comm in comms}),
        "nodes": max(nodes, default=len({slot.host for slot in known or members})),
        "channels": max(totals, default=None),
        "init": "complete" if "COMPLETE" in states else "started" if comms else None,
        **counts,
    }


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
    """Correct the slots. Threads that connect after a communicator is ready do not name it, but the
    link has the thread's own rank, which identifies it."""
    ends = (
        item.destination if item.direction == "receive" else item.source for item in collected.links
    )
    own = np.array(list(ends), np.int32)
    comms = [item.comm for item in collected.slots]
    rank = np.array([-1 if comm is None else comm.rank for comm in comms], np.int32)
    wrong = (rank[slot] >= 0) & (rank[slot] != own[link])
    if not wrong.any():
        return slot
    pairs, place = np.unique(np.stack([slot[wrong], link[wrong]]), axis=1, return_inverse=True)
    better = np.array([_better(collected, *pair) for pair in pairs.T.tolist()], np.intc)
    slot = slot.copy()
    slot[wrong] = better[place.reshape(-1)]
    return slot


def _better(collected: Collected, slot: int, link: int) -> int:
    """Return another communicator of the same process in which the link is valid."""
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
    """Return ranks from channel lines, which the sender (or receiver) prints, without `comm`
    lines."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    kinds = ["communicator", "source", "destination", "direction", "host"]
    rows: Any = channels[kinds].drop_duplicates().itertuples()
    for row in rows:
        own = row.destination if row.direction == "receive" else row.source
        key = (int(row.communicator), int(own))
        found.setdefault(key, {"communicator": key[0], "rank": key[1], "host": row.host})
    return list(found.values())
