"""Where ranks meet: a store that rank 0 keeps, or torchrun's agent.

What goes wrong there is told in a line: torch's own words for it are a screen of addresses.
"""

from __future__ import annotations

import os
from datetime import timedelta

import torch.distributed as dist

from process.environment import check_meeting_point, check_name
from process.errors import MeetingPointError, SurroundingsError

SIZE = "world_size"


def open_store(
    rank: int, world_size: int, timeout: timedelta, *, waits: bool = False
) -> dist.Store:
    """A private one for a rank alone. `waits`: rank 0 waits here until all have come."""
    if world_size == 1:
        return dist.HashStore()
    check_meeting_point()
    check_name(timeout.total_seconds() / 2)
    try:
        store = _store(rank, world_size, timeout, waits)
        _check_size(store, rank, world_size)
    except dist.DistError as error:
        raise _told(error, rank) from error
    return store


def place() -> str:
    return f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"


def _store(rank: int, world_size: int, timeout: timedelta, waits: bool) -> dist.Store:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        found = dist.rendezvous("env://", rank=rank, world_size=world_size, timeout=timeout)
        store: dist.Store = next(iter(found))[0]
        return store
    return dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, rank == 0, timeout,
        wait_for_workers=waits, multi_tenant=True,
    )  # fmt: skip


def _check_size(store: dist.Store, rank: int, world_size: int) -> None:
    """Ranks that count on other numbers of ranks would wait for some that never come."""
    if rank == 0:
        store.set(SIZE, str(world_size))
        return
    first = int(store.get(SIZE))
    if first != world_size:
        raise SurroundingsError(
            f"WORLD_SIZE is {world_size} here, and {first} on rank 0; export the same in all tasks "
            "(torchrun and srun do it)"
        )


def _told(error: Exception, rank: int) -> Exception:
    said = str(error).partition("\n")[0][:200]
    if "EADDRINUSE" in said:
        return MeetingPointError(
            f"port {os.environ['MASTER_PORT']} is in use on this node, by another job or another "
            f"process that was told to be rank 0 too; export another MASTER_PORT ({said})"
        )
    if rank == 0:
        return error
    return MeetingPointError(
        f"rank 0 does not answer at {place()}: it was not started, has ended, or was told another "
        f"MASTER_ADDR or MASTER_PORT, or a wall lies between; its own lines may say which ({said})"
    )
