"""Agreement of the ranks about their devices, before they communicate through them.

A rank sees only its own devices. It cannot know that another rank uses the same GPU, or that a rank
found none. Through the store, each rank reads the device of every rank; all draw the same
conclusion from the same list."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from process.errors import MissingRankError, SurroundingsError
from process.rendezvous import place

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
HOST_ID = "NCCL_HOSTID"


@dataclass(frozen=True)
class Seat:
    """Node and device of a rank."""

    node: str
    # NCCL's name of the machine; NCCL refuses two ranks of one host on one GPU.
    host: str
    # The same for all nodes of the box, which may share a GPU.
    machine: str
    device: str
    # Bus address, by which NCCL distinguishes GPUs; slices of one GPU have the same.
    card: str


@dataclass(frozen=True)
class Agreement:
    # One per rank; empty for a rank that keeps its host id.
    host_ids: list[str]
    # Line for the log; empty if every rank has its own GPU or processor.
    sharing: str = ""


def seat_of(device: torch.device) -> Seat:
    name = socket.gethostname()
    machine = BOOT_ID.read_text().strip() if BOOT_ID.is_file() else name
    host = os.environ.get(HOST_ID) or f"{name}-{machine[:8]}"  # hosts may have equal names
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
    """Return the same agreement on all ranks, from the list of their seats."""
    kinds = sorted({seat.device for seat in seats})
    if len(kinds) > 1:
        some = [next(f"{kind} on {s.node}" for s in seats if s.device == kind) for kind in kinds]
        raise SurroundingsError(
            f"ranks have different devices: {', '.join(some)}; give every rank a GPU (as many per "
            "node as there are ranks on it, and CUDA_VISIBLE_DEVICES as the job got it), or hide "
            "all of them with CUDA_VISIBLE_DEVICES=-1"
        )
    if kinds == ["cpu"]:
        return Agreement([""] * len(seats))
    before: dict[tuple[str, str], int] = {}
    host_ids = []
    for seat in seats:
        place = (seat.host, seat.card)
        turn = before.get(place, 0)
        before[place] = turn + 1
        # NCCL refuses two ranks of one host on one GPU, so the second gets another host id and
        # communicates over sockets. The first ranks on each GPU keep one host, and NCCL uses its
        # fast transports between them.
        host_ids.append(f"{seat.host}-{turn + 1}" if turn else "")
    return Agreement(host_ids, sharing_line(seats))


def sharing_line(seats: list[Seat]) -> str:
    on: dict[tuple[str, str], list[int]] = {}
    for rank, seat in enumerate(seats):
        on.setdefault((seat.machine, seat.card), []).append(rank)
    shared = [ranks for ranks in on.values() if len(ranks) > 1]
    if not shared:
        return ""
    groups = [f"ranks {', '.join(map(str, ranks))} share one" for ranks in shared]
    return (
        f"note: {len(seats)} ranks on {len(on)} {'GPU' if len(on) == 1 else 'GPUs'}: "
        f"{'; '.join(groups)}. Ranks that share a GPU divide its memory and time"
    )


def agree(store: dist.Store, rank: int, size: int, seat: Seat, timeout: timedelta) -> Agreement:
    """Wait for the seats of all ranks, and decide from them."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may restart the ranks
    ours = dist.PrefixStore(f"devices/{attempt}", store)
    ours.set(str(rank), json.dumps(asdict(seat)))
    everyone = [str(other) for other in range(size)]
    try:
        ours.wait(everyone, timeout)
    except dist.DistStoreError as error:
        missing = [other for other in range(size) if not ours.check([str(other)])]
        raise MissingRankError(missing, place()) from error
    return decide([Seat(**json.loads(found)) for found in ours.multi_get(everyone)])


def follow(agreement: Agreement, rank: int) -> None:
    """Apply the agreement before NCCL starts, as NCCL reads the host id once."""
    if agreement.host_ids[rank]:
        os.environ[HOST_ID] = agreement.host_ids[rank]
    if agreement.sharing and rank == 0:
        print(agreement.sharing, flush=True)
