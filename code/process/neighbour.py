"""Each rank watches the next one, the last watches rank 0: a rank that is killed is missed at once.

    rank 0 ──▶ rank 1 ──▶ rank 2 ──▶ rank 3 ──▶ rank 0

Who is killed says nothing, and collectives may wait for it until their time-out. But the operating
system closes the connections of a process that ends, however it ends, and keeps those of one that
is slow, compiles, is stopped in a debugger or sleeps with its laptop. So each rank holds a
connection to the next, over which nothing is sent but one letter of farewell. Where it breaks
without one, the next rank is dead. Among hundreds of ranks each still has two connections, and
rank 0 is as any other.

Nothing that comes in at a rank's door is read, so a stranger can do nothing there; and where the
rank before it is on the same machine, the door opens to this machine alone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from pathlib import Path
from typing import Any

import torch.distributed as dist

from process.errors import MissingRankError
from process.telling import node_name

WELL, FAILED, DEAD = b".", b"!", b""
"""The farewells: all ranks are through; one has failed and said so; killed, without a farewell."""
MOST_ASKED_FOR = 512
CONNECT_S = 10.0
KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
"""Seconds, and how often. Without power nothing is closed: a minute of silence counts as an end."""


class Neighbour:
    """The next rank; and the door where the rank before this one holds its connection."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        """Waits for both. OSError: the next rank is out of reach."""
        behind = (rank + 1) % size
        loopback = _loopback()
        _write(store, f"home/{rank}", [f"{node_name()}, process {os.getpid()}", loopback])
        _, before = _home(store, (rank - 1) % size, size)
        family, host, address = socket.AF_INET, "127.0.0.1", "127.0.0.1"
        if before != loopback:
            family, host, address = _side_towards(os.environ["MASTER_ADDR"])
        self.door = socket.create_server((host, 0), family=family)
        self.door.setblocking(False)  # several threads may say farewell at once
        os.register_at_fork(after_in_child=self.door.close)  # a child may outlive this process
        _write(store, f"door/{rank}", [address, self.door.getsockname()[1]])
        place, home = _home(store, behind, size)
        self.who = f"rank {behind} (on {place})"
        self.connection = _held(_read(store, f"door/{behind}"), is_near=home == loopback)

    def farewell(self) -> bytes:
        """How the next rank ended; sleeps until then, without Python's lock."""
        try:
            return self.connection.recv(1) if self.connection else DEAD
        except OSError:
            return DEAD

    def leave(self, farewell: bytes) -> None:
        """Nobody was let in until now: the kernel holds connections that wait at the door."""
        while True:
            try:
                visitor, _ = self.door.accept()
            except OSError:  # BlockingIOError: that was the last one
                return
            with visitor, contextlib.suppress(OSError):  # a stranger may have gone meanwhile
                visitor.send(farewell)


def _held(door: list[Any], is_near: bool) -> socket.socket | None:
    """A connection that notices its other end's end. None: that came before it was made."""
    try:
        made = socket.create_connection(tuple(door), CONNECT_S)
    except ConnectionRefusedError:
        if is_near:
            return None
        raise  # it may be a wall between the machines
    made.settimeout(None)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _loopback() -> list[str]:
    """Equal where 127.0.0.1 is the same: one machine, one network namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return [boot, str(Path("/proc/self/ns/net").readlink())]
    except OSError:
        return [socket.gethostname()]


def _side_towards(name: str) -> tuple[socket.AddressFamily, str, str]:
    """Where to listen for other machines, and as what they know that."""
    family, _, _, _, there = socket.getaddrinfo(name, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(there)  # sends nothing, but chooses the card
        own = way.getsockname()[0]
    if ipaddress.ip_address(own).is_loopback:  # this is that machine, and its name holds elsewhere
        return family, "", name
    return family, own, own


def _home(store: dist.Store, rank: int, size: int) -> Any:
    try:
        return _read(store, f"home/{rank}")
    except dist.DistStoreError as error:
        # Rank 0 may keep the store, and wait in it for the others.
        asked = range(1, size) if size <= MOST_ASKED_FOR else [rank]
        missing = [r for r in asked if not store.check([f"home/{r}"])]
        where = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
        raise MissingRankError(missing or [rank], where) from error


def _write(store: dist.Store, key: str, value: list[Any]) -> None:
    store.set(key, json.dumps(value))


def _read(store: Any, key: str) -> Any:
    return json.loads(store.get(key))
