"""What ranks agree on about their devices before they talk to each other through them.

A rank sees its own devices only, so it cannot know that another one sits on the same GPU, or that
one of them found none. Through the store in which they met, rank 0 hears of every rank's device,
decides once, and all do what it says: ranks that decided each for itself could wait for each other
for ever.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from process.errors import DeviceError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
HOST_ID = "NCCL_HOSTID"
TOLD = 4
"""Groups of ranks on one GPU that the line names; the others are counted."""


@dataclass(frozen=True)
class Seat:
    """Where a rank sits."""

    node: str
    host: str
    """What NCCL takes for the machine; it refuses two ranks of one host on one GPU."""
    machine: str
    """The same for all nodes of the box: they may share a GPU."""
    device: str
    card: str
    """Address on the bus, by which NCCL tells GPUs apart: slices of one GPU have the same."""


@dataclass(frozen=True)
class Agreement:
    host_ids: list[str] = field(default_factory=list)
    """By rank; empty for those that keep the host they have."""
    sharing: str = ""
    """A line for the log; empty where every rank has a GPU, or a processor, of its own."""
    refusal: str = ""


def seat_of(device: torch.device) -> Seat:
    name = socket.gethostname()
    machine = BOOT_ID.read_text().strip() if BOOT_ID.is_file() else name
    host = os.environ.get(HOST_ID) or f"{name}-{machine[:8]}"  # names may be the same everywhere
    node = os.environ.get("SLURMD_NODENAME") or name
    card = card_of(device) if device.type != "cpu" else ""
    return Seat(node, host, machine, device.type, card)


def card_of(device: torch.device) -> str:
    found = torch.get_device_module(device).get_device_properties(device)
    address = [getattr(found, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if address[1] is not None:
        return ":".join(str(number) for number in address)
    return str(getattr(found, "uuid", device.index))


def decide(seats: list[Seat]) -> Agreement:
    """One answer for all ranks, from where each of them sits."""
    kinds = sorted({seat.device for seat in seats})
    if len(kinds) > 1:
        return Agreement(refusal=mixture(seats, kinds))
    if kinds == ["cpu"]:
        return Agreement([""] * len(seats))
    before: dict[tuple[str, str], int] = {}
    host_ids = []
    for seat in seats:
        place = (seat.host, seat.card)
        turn = before.get(place, 0)
        before[place] = turn + 1
        # NCCL refuses two ranks of one host on one GPU, so the second says that it is elsewhere,
        # and is talked to over sockets. The first on each GPU stay one host: between those NCCL
        # takes the quick ways.
        host_ids.append(f"{seat.host}-{turn + 1}" if turn else "")
    return Agreement(host_ids, sharing_line(seats))


def mixture(seats: list[Seat], kinds: list[str]) -> str:
    first = {seat.device: rank for rank, seat in reversed(list(enumerate(seats)))}
    told = [f"rank {first[kind]} on {seats[first[kind]].node} has {kind}" for kind in kinds]
    return (
        f"ranks have different devices: {', '.join(told)}; give every rank a GPU (as many per node "
        "as there are ranks on it, and CUDA_VISIBLE_DEVICES as the job got it), or hide all of "
        "them with CUDA_VISIBLE_DEVICES=-1"
    )


def sharing_line(seats: list[Seat]) -> str:
    on: dict[tuple[str, str], list[int]] = {}
    for rank, seat in enumerate(seats):
        on.setdefault((seat.machine, seat.card), []).append(rank)
    shared = [ranks for ranks in on.values() if len(ranks) > 1]
    if not shared:
        return ""
    groups = [f"ranks {', '.join(map(str, ranks))} share one" for ranks in shared[:TOLD]]
    more = f", and {len(shared) - TOLD} more are shared" if len(shared) > TOLD else ""
    return (
        f"note: {len(seats)} ranks on {len(on)} {'GPU' if len(on) == 1 else 'GPUs'}: "
        f"{'; '.join(groups)}{more}. Who shares has a part of its memory and of its time"
    )


def agree(store: dist.Store, rank: int, size: int, seat: Seat, patience: timedelta) -> Agreement:
    """Every rank gets rank 0's answer. `patience` should be longer than that of the meeting: who is
    missing there is told by the rank that watches it, and then this one ends."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may start us anew
    ours = dist.PrefixStore(f"devices/{attempt}", store)
    ours.set(str(rank), json.dumps(asdict(seat)))
    if rank == 0:
        seats = [Seat(**_read(ours, str(other), patience)) for other in range(size)]
        ours.set("agreed", json.dumps(asdict(decide(seats))))
    return Agreement(**_read(ours, "agreed", patience))


def _read(store: Any, key: str, patience: timedelta) -> dict[str, Any]:
    store.wait([key], patience)
    found: dict[str, Any] = json.loads(store.get(key))
    return found


def follow(agreement: Agreement, rank: int) -> None:
    """Before NCCL starts: it asks once which host this is."""
    if agreement.refusal:
        raise DeviceError(agreement.refusal)
    if agreement.host_ids[rank]:
        os.environ[HOST_ID] = agreement.host_ids[rank]
    if agreement.sharing and rank == 0:
        print(agreement.sharing, flush=True)
