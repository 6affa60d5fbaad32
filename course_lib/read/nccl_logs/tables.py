"""Tables of communicators, assembled from the views of single ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from course_lib.read.nccl_logs.collected import Collected, Slot
from course_lib.read.nccl_logs.line_patterns import Link
from course_lib.read.nccl_logs.result import (
    CHANNEL_COLUMNS,
    COMMUNICATOR_COLUMNS,
    RANK_COLUMNS,
    NcclLog,
)
from course_lib.read.rows import Rows, as_integers

if TYPE_CHECKING:
    import pandas as pd


Key = tuple[Any, ...]
_TEXTS = ("source_device", "destination_device", "direction", "transport", "raw")
_LINK_TYPES = {
    **dict.fromkeys(_TEXTS, "category"),
    **dict.fromkeys(("source", "destination"), "int32"),
    **dict.fromkeys(("nic", "through"), "Int32"),
}


def communicator_numbers(collected: Collected) -> list[int]:
    """Return each slot's communicator, counted from 0 in the order of the log.

    New versions print an id. Without an id, the k-th communicators of a given size that the
    processes join are the same communicator, with one member for each rank. A slot without a named
    communicator belongs to the largest communicator."""
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
    for name in ("communicator", "channel", "line"):
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
    """Return the rings. NCCL prints only the first ranks of a long ring (truncated)."""
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
    most: Any = channels.groupby("communicator")[["channel", "source", "destination"]].max()
    most = most.reindex(range(len(set(number))), fill_value=-1)  # -1: no channel
    used: set[Any] = {*most.index[most["channel"] >= 0], *ring_table["communicator"]}
    rows = []
    for key, members in sorted(slots.items()):
        if key in used or any(slot.comm for slot in members):
            my_rings = ring_table[ring_table["communicator"] == key]
            row = _communicator(members, most.loc[key].tolist(), my_rings)
            rows.append({"communicator": key, **row})
    whole = ["communicator", "size", "ranks_seen", "nodes", "channels"]
    return Rows(COMMUNICATOR_COLUMNS, whole, rows).table()


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
    return {
        "label": next((comm.parts["commId"] for comm in comms if "commId" in comm.parts), None),
        "size": max([comm.size for comm in comms], default=max(seen, default=None)),
        "ranks_seen": len({comm.rank for comm in comms}),
        "nodes": max(nodes, default=len({slot.host for slot in known or members})),
        "channels": max(totals, default=None),
        "init": "complete" if "COMPLETE" in states else "started" if comms else None,
    }


def build(collected: Collected) -> NcclLog:
    number = communicator_numbers(collected)
    channels = _channels(collected, number)
    ranks = _ranks(collected, number, channels)
    ring_table = rings(collected, number)
    return NcclLog(
        library=collected.library,
        versions=tuple(collected.versions),
        hosts=tuple(collected.threads.hosts),
        network=collected.network,
        environment=dict(collected.environment),
        communicators=communicators(collected, number, channels, ring_table),
        ranks=ranks,
        channels=channels,
        rings=ring_table.drop(columns="total", errors="ignore"),
        warnings=collected.warnings.table(),
        simulated=collected.simulated,
        lines=collected.lines,
        files=tuple(collected.files),
    )


def _channels(collected: Collected, number: list[int]) -> pd.DataFrame:
    rows = collected.rows
    if not len(rows.slot):
        return pd.DataFrame(columns=list(CHANNEL_COLUMNS))
    link = np.frombuffer(rows.link, np.intc)
    slot = _corrected(collected, np.frombuffer(rows.slot, np.intc), link)
    links = pd.DataFrame(collected.links, columns=list(Link._fields)).astype(_LINK_TYPES)
    hosts = pd.Series(
        [item.host for item in collected.slots],
        dtype=pd.CategoricalDtype(list(collected.threads.hosts)),
    )
    table = links.take(link).reset_index(drop=True)
    table = table.assign(
        communicator=np.array(number, np.int32)[slot],
        channel=np.frombuffer(rows.channel, np.intc),
        host=hosts.take(slot).array,
        line=np.frombuffer(rows.line, np.int64),
    )
    return table[list(CHANNEL_COLUMNS)]


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
        rows = _from_channels(collected, channels)
    whole = ["communicator", "rank", "pid", "cuda_device", "nvml_device"]
    table = Rows(RANK_COLUMNS, whole, rows).table()
    table = table.drop_duplicates(["communicator", "rank"])
    return table.sort_values(["communicator", "rank"], ignore_index=True)


def _integer(text: str | None, otherwise: int | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else otherwise


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
