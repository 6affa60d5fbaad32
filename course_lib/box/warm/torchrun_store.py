"""Keeps the store at which torchrun's launchers meet until the other nodes have left it.

The launcher of the first node serves it, and ends as soon as it has seen the others finish. On a
machine with few cores they are slower than it is: their last words to the store find nobody, and a
run that went well ends with a traceback.
"""

from __future__ import annotations

import time
from typing import Any

LONGEST_S = 2.0


def keep_stores() -> list[Any]:
    """The stores that this process is going to serve, which live as long as the list."""
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend

    backend: Any = c10d_rendezvous_backend
    make_store = backend.TCPStore
    served: list[Any] = []

    def make(*places: Any, **options: Any) -> Any:
        store = make_store(*places, **options)
        if options.get("is_master"):
            served.append(store)
        return store

    backend.TCPStore = make
    return served


def wait_for_others(stores: list[Any]) -> None:
    """Until no other process is connected to a store of ours: the kernel says, nobody announces."""
    ports = {store.port for store in stores}
    end = time.monotonic() + LONGEST_S
    while ports and _connected(ports) and time.monotonic() < end:
        time.sleep(0.01)


def _connected(ports: set[int]) -> bool:
    import psutil

    ours = psutil.Process().net_connections("tcp")
    ends = {(one.laddr.ip, one.laddr.port) for one in ours}
    return any(
        one.status == psutil.CONN_ESTABLISHED
        and one.laddr.port in ports
        and (one.raddr.ip, one.raddr.port) not in ends
        for one in ours
    )
