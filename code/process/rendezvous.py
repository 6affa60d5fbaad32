"""Rendezvous of the ranks in a store, which rank 0 or torchrun's agent holds.

A failed rendezvous is reported in one line. Torch's own message fills a screen with addresses."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from process.environment import whole_number
from process.errors import RendezvousError, SurroundingsError

ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
# When a job starts on many nodes at once, a name server may fail to answer at first.
RESOLVED_WITHIN_S = 10.0
AGENT_WITHIN_S = 30.0


def open_store(
    rank: int, world_size: int, timeout: timedelta, *, waits: bool = False
) -> dist.Store:
    """Open the store (private for a single rank). With `waits`, rank 0 waits for all ranks."""
    if world_size == 1:
        return dist.HashStore()
    check_address()
    check_name(timeout.total_seconds() / 2)
    try:
        return _store(rank, world_size, timeout, waits)
    except dist.DistError as error:
        raise _rendezvous_error(error, rank) from error


def own_connection(store: Any) -> dist.Store:
    """Return a second connection, as the first may wait. (PyTorch's stubs lack `clone`.)"""
    made: dist.Store = store.clone()
    return made


def check_address() -> None:
    """Check that this rank knows the address at which the ranks meet."""
    missing = [name for name in ADDRESS if not os.environ.get(name)]
    if missing:
        raise SurroundingsError(
            f"{missing[0]} is not set; export MASTER_ADDR, the first node, and MASTER_PORT, a free "
            "port, in each task (torchrun does it)"
        )
    whole_number("MASTER_PORT", 0, 65535)


def check_name(within_s: float) -> None:
    """Check the name of the meeting point; the store would try a wrong name until its time-out."""
    name, began = os.environ["MASTER_ADDR"], time.monotonic()
    while True:
        try:
            socket.getaddrinfo(name, None)
            return
        except (OSError, UnicodeError) as error:  # UnicodeError: the name is too long
            told = getattr(error, "strerror", None) or str(error)
        if time.monotonic() - began > min(within_s, RESOLVED_WITHIN_S):
            raise RendezvousError(
                f"MASTER_ADDR={name[:100]} is no name or address that this node knows ({told}); "
                "export the first node's name, without a port, as `scontrol show hostnames | "
                "head -n 1` prints it in a job; `getent hosts <name>` tests a name on a node"
            )
        time.sleep(0.5)


def place() -> str:
    return f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"


def _store(rank: int, world_size: int, timeout: timedelta, waits: bool) -> dist.Store:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # This store is there before the ranks, so no rank has to wait long for it.
        soon = min(timeout, timedelta(seconds=AGENT_WITHIN_S))
        found = dist.rendezvous("env://", rank=rank, world_size=world_size, timeout=soon)
        store: dist.Store = next(iter(found))[0]
        store.set_timeout(timeout)
        return store
    return dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, rank == 0, timeout,
        wait_for_workers=waits, multi_tenant=True,
    )  # fmt: skip


def _rendezvous_error(error: Exception, rank: int) -> Exception:
    said = str(error).partition("\n")[0][:200]
    if "EADDRINUSE" in said:
        return RendezvousError(
            f"port {os.environ['MASTER_PORT']} is in use on this node, by another job, or by "
            f"another process with rank 0; export another MASTER_PORT ({said})"
        )
    if rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return error
    return RendezvousError(
        f"rank 0 does not answer at {place()}: it was not started, has ended, or has another "
        f"MASTER_ADDR or MASTER_PORT, or a firewall blocks it; see its own lines ({said})"
    )
