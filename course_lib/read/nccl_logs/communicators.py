"""Which lines of which ranks belong to the same communicator."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from course_lib.read.nccl_logs.collected import Collected
from course_lib.read.nccl_logs.result import COMMUNICATOR_COLUMNS
from course_lib.read.nccl_logs.threads import Slot
from course_lib.read.rows import Rows, as_integers

if TYPE_CHECKING:
    import pandas as pd


Key = tuple[Any, ...]


def communicator_numbers(collected: Collected) -> list[int]:
    """Which communicator each slot belongs to, counted from 0 in the order of the log.

    New versions print an id. Without one, the k-th communicator of a given size that a process
    joins is matched with the k-th of the others, one member for each rank. What says nothing of
    its communicator is taken to belong to the largest.
    """
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
    """NCCL prints the first ranks of a long ring only: then it is marked as truncated."""
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
    """Largest channel, source and destination of every communicator (-1: it has no channels)."""
    found = [np.full(count, -1, np.int32) for _ in range(3)]
    if len(channels):
        key = channels["communicator"].to_numpy()
        begin = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))  # ranks print in runs
        for values, name in zip(found, ("channel", "source", "destination"), strict=True):
            runs = np.maximum.reduceat(channels[name].to_numpy(), begin)
            np.maximum.at(values, key[begin].astype(np.intp), runs.astype(np.int32))
    return found


def _communicator(members: list[Slot], most: list[int], ring_table: pd.DataFrame) -> dict[str, Any]:
    """`most`: the largest number of a channel, a source and a destination (-1: none)."""
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
