"""Each rank watches the next one, the last watches rank 0: a rank that is killed is missed at once.

    rank 0 ──▶ rank 1 ──▶ rank 2 ──▶ rank 3 ──▶ rank 0

Who is killed says nothing, and collectives may wait for it until their time-out. But the operating
system closes the connections of a process that ends, however it ends, and keeps those of one that
is slow, compiles, is stopped in a debugger or sleeps with its laptop. So each rank holds a
connection to the next. Where it breaks without a letter of farewell, the next rank is dead. Among
hundreds of ranks each still has two connections, and rank 0 is as any other.

Every few seconds a letter comes over it that says nothing but "still here". Where these stay away
the next rank may be stopped, or its node frozen: that is told and ends nothing, for it may go on.

Nothing that comes in at a rank's door is read, so a stranger can do nothing there; and where the
rank before it is on the same machine, the door opens to this machine alone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from process.errors import MissingRankError
from process.meeting_point import place
from process.telling import node_name

WELL, FAILED, DEAD = b".", b"!", b""
"""The farewells: all ranks are through; one has failed and said so; killed, without a farewell."""
HERE = b"~"
HERE_EVERY_S, SILENT_S = 5.0, 20.0
MOST_GUESTS = 16
"""At the door: one is the rank before, the others are strangers."""
MOST_ASKED_FOR = 512
CONNECT_S = 10.0
KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
"""Seconds, and how often. Without power nothing is closed: a minute of silence counts as an end."""
WHY_SILENT = (
    "stopped (`ps -o stat -p <process>` on its node says T; `kill -CONT <process>` lets it go on), "
    "on a node that is frozen or cut off, or busy; the others wait for it until their time-out"
)


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
        self.door.setblocking(False)
        self.guests: list[socket.socket] = []
        self.gone, self.talking = threading.Event(), threading.Lock()
        os.register_at_fork(after_in_child=self._close)  # a child may outlive this process
        # Before this rank waits for the next one, who may be late: the one before waits as well.
        with contextlib.suppress(RuntimeError):  # no memory for a thread
            threading.Thread(target=self._keep_saying_so, daemon=True).start()
        _write(store, f"door/{rank}", [address, self.door.getsockname()[1]])
        where, home = _home(store, behind, size)
        self.who = f"rank {behind} (on {where})"
        self.connection = _held(_read(store, f"door/{behind}"), is_near=home == loopback)

    def farewell(self, tell: Callable[[str], None]) -> bytes:
        """How the next rank ended; sleeps until then, without Python's lock. `tell` hears of a
        silence, and of its end."""
        if self.connection is None:
            return DEAD
        self.connection.settimeout(SILENT_S / 2)
        heard, silences = time.monotonic(), 0
        while True:
            try:
                letter = self.connection.recv(1)
            except TimeoutError as error:
                if error.errno:  # the kernel's: nobody answers there any more
                    return DEAD
                # The second one counts: if this process was stopped as well, the first is its own.
                silences += 1
                if silences == 2:
                    silent_s = time.monotonic() - heard
                    tell(f"nothing was heard of {self.who} for {silent_s:.0f} s: {WHY_SILENT}")
                continue
            except OSError:
                return DEAD
            if letter != HERE:
                return letter
            if silences >= 2:
                tell(f"{self.who} is back after {time.monotonic() - heard:.0f} s")
            heard, silences = time.monotonic(), 0

    def _keep_saying_so(self) -> None:
        """That this rank is still here, until it leaves."""
        while not self.gone.wait(HERE_EVERY_S):
            with self.talking:
                self._let_in(MOST_GUESTS)
                self.guests = [guest for guest in self.guests if _sent(guest, HERE)]

    def leave(self, farewell: bytes) -> None:
        """Several threads may say so."""
        self.gone.set()
        with self.talking:
            self._let_in(sys.maxsize)  # the rank before may still wait at the door
            for guest in self.guests:
                _sent(guest, farewell)

    def _let_in(self, most: int) -> None:
        """The kernel holds connections that wait at the door."""
        while len(self.guests) < most:
            try:
                guest, _ = self.door.accept()
            except OSError:  # BlockingIOError: that was the last one
                return
            guest.setblocking(False)
            self.guests.append(guest)

    def _close(self) -> None:
        for open_one in (self.door, *self.guests):
            open_one.close()


def _sent(guest: socket.socket, letter: bytes) -> bool:
    """False where it has gone."""
    try:
        guest.send(letter)
    except BlockingIOError:  # it reads nothing
        return True
    except OSError:
        return False
    return True


def _held(door: list[Any], is_near: bool) -> socket.socket | None:
    """A connection that notices its other end's end. None: that came before it was made."""
    try:
        made = socket.create_connection(tuple(door), CONNECT_S)
    except ConnectionRefusedError:
        if is_near:
            return None
        raise  # it may be a wall between the machines
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
        raise MissingRankError(missing or [rank], place()) from error


def _write(store: dist.Store, key: str, value: list[Any]) -> None:
    store.set(key, json.dumps(value))


def _read(store: Any, key: str) -> Any:
    return json.loads(store.get(key))
