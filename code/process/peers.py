"""Detection of failed ranks, through the ranks' store and through rank 0.

The store has a few keys:

    said/<digest>   number of ranks with this error; the first rank reports it
    alike/<digest>  these ranks; at the end the first rank names the others
    through         number of ranks that have finished their work
    gave_up         set by a rank that waited for the others until its time-out
    news            "failed" after a rank's failure, "over" when all are through
    ended           number of ranks that have finished their reports
    hub             address of rank 0's hub

A killed rank sends no message, and collectives may wait for it until their time-out. But the
operating system closes the connections of a process that ends for any reason, and keeps those of a
process that is slow, compiles, or is stopped. So each rank holds a connection to a hub in rank 0,
and sends a farewell before it ends. If a connection closes without a farewell, its rank is dead,
and rank 0 reports this. If the hub is gone, rank 0 is dead.

A failed rank waits a moment before it ends. torchrun ends all other ranks as soon as one has ended,
even a rank that is about to report its own error. The failed rank may also hold the store."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from process.environment import environment_of_rank
from process.errors import (
    LostRankError,
    MissingRankError,
    cause_of,
    counted,
    error_lines,
    node_name,
    say,
)
from process.places import busy_at, leave_flight_record
from process.rendezvous import own_connection, place

# Time for other ranks to report their own errors.
LINGER_S = 3.0
# A launcher that ends a job kills all ranks in turn, also the one that would report the others.
GRACE_S = 1.0
# The failed rank ends first, so that a launcher names it; the rank with the store ends last.
MARGIN_S = 1.0
ANSWER = timedelta(seconds=5)
LONG = timedelta(days=30)
CONNECT_S = 10.0
FAREWELL = "farewell"
MOST_BYTES = 1000  # for the text of one connection


def _aside(work: Callable[[], object]) -> None:
    """Work in a thread: a store on a dead machine may never answer."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:  # a full device has no memory for a thread
        work()


class Hub:
    """Connections to all ranks; `lost` is called for each that closes without a farewell."""

    def __init__(self, lost: Callable[[str], object]) -> None:
        self.lost = lost
        # Ranks on one node need no access from outside; srun alone sets neither variable.
        alone = os.environ.get("LOCAL_WORLD_SIZE", "") == os.environ.get("WORLD_SIZE")
        self.host = "127.0.0.1" if alone else os.environ["MASTER_ADDR"]
        family = socket.getaddrinfo(self.host, None)[0][0]
        self.door = socket.create_server((self.host, 0), family=family, backlog=1024)
        self.token = secrets.token_hex(16)  # only ranks can read it, in the store
        self.said: dict[socket.socket, bytes] = {}

    def serve(self) -> None:
        self.door.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self.door, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    self._hear(selector, key.fileobj)

    def _hear(self, selector: selectors.BaseSelector, source: Any) -> None:
        if source is self.door:
            with contextlib.suppress(OSError):  # closed again
                rank, _ = self.door.accept()
                selector.register(rank, selectors.EVENT_READ)
                self.said[rank] = b""
            return
        try:
            text = source.recv(MOST_BYTES)
        except OSError:
            text = b""
        self.said[source] += text
        if text and len(self.said[source]) <= MOST_BYTES:
            return
        selector.unregister(source)
        source.close()
        token, name, *farewell = [*self.said.pop(source).decode(errors="replace").split("\n"), ""]
        if token == self.token and FAREWELL not in farewell:
            self.lost(name)

    def say_farewell(self) -> None:
        for rank in list(self.said):
            with contextlib.suppress(OSError):
                rank.send(b".")


class Peers:
    """Other ranks, from the view of one rank. Only `watch` raises errors; a lost store is
    ignored."""

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may restart them
        self.shared = dist.PrefixStore(f"ends/{attempt}", store)
        self.store = own_connection(self.shared)
        self.store.set_timeout(ANSWER)
        self.rank, self.size = rank, world_size
        self.agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self.keeps_store = rank == 0 and not self.agent
        self.hub: Hub | None = None
        self.connection: socket.socket | None = None  # to the hub
        self.lost: list[str] = []
        self.over = threading.Event()  # all ranks are through
        self.heard = threading.Event()  # a rank has failed
        self.heard_at = 0.0
        self.ending = threading.Lock()  # held by the thread that ends this process
        self.leaving = False  # because of this rank's own error
        self.alike = ""  # the key of the ranks with the error that this rank reports

    def watch(self) -> None:
        """End this process when another rank fails or dies, even if it is waiting."""
        _aside(self._wait_for_news)
        name = f"rank {self.rank} (on {node_name()}, process {os.getpid()})"
        try:
            if self.rank == 0:
                self.hub = Hub(self._missed)
                port = self.hub.door.getsockname()[1]
                _aside(self.hub.serve)
                at = [self.hub.host, port, self.hub.token, name]
                self.shared.set("hub", json.dumps(at))
            host, port, token, first = self._read_hub()
            self.connection = socket.create_connection((host, port), CONNECT_S)
            self.connection.settimeout(None)
            self.connection.sendall(f"{token}\n{name}\n".encode())
        except OSError as error:
            far = f"rank 0 cannot be reached from {node_name()} ({error})"
            say([f"[rank{self.rank}]: note: {far}; if a rank dies, others wait for a time-out"])
            return
        os.register_at_fork(after_in_child=self._close)  # a child may outlive this process
        atexit.register(self._say_farewell)  # for a program that ends by itself
        _aside(lambda: self._watch_hub(first))

    def _read_hub(self) -> Any:
        try:
            return json.loads(self.shared.get("hub"))
        except dist.DistStoreError as error:
            raise MissingRankError([0], place()) from error

    def _close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self.hub is not None:
            for one in (self.hub.door, *self.hub.said):
                one.close()

    def _say_farewell(self) -> None:
        if self.hub is not None:
            self.hub.say_farewell()
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.sendall(f"{FAREWELL}\n".encode())

    def _missed(self, name: str) -> None:
        """Record a dead rank on rank 0, which reports all that died together."""
        self.lost.append(name)
        if len(self.lost) == 1 and not self.heard.is_set():  # otherwise a launcher ends the others
            _aside(lambda: self._tell_of(self.lost))

    def _watch_hub(self, first: str) -> None:
        assert self.connection is not None
        farewell = b""
        with contextlib.suppress(OSError):
            farewell = self.connection.recv(1)  # blocks in the socket, without the GIL
        if farewell or self.heard.is_set() or self.leaving:
            return
        rank, _, local_rank = environment_of_rank()
        # One rank of each node reports it; on rank 0's node this is the next rank.
        if local_rank == (1 if rank == local_rank else 0):
            self._tell_of([first])
        else:
            time.sleep(GRACE_S)
            self._end()

    def _tell_of(self, lost: list[str]) -> None:
        time.sleep(GRACE_S)
        if self.over.is_set():
            return
        say(error_lines(LostRankError(lost), self.rank, self.size))
        self._end()

    def _wait_for_news(self) -> None:
        store = own_connection(self.shared)
        try:
            store.wait(["news"], LONG)  # blocks in the socket, without the GIL
            if store.get("news") == b"over":
                self.over.set()
                return
        except RuntimeError:  # the store's process is dead; if it was rank 0, others report it
            time.sleep(GRACE_S)
            if self.agent and self.rank == 0:
                self._tell_of(["torchrun's agent, which kept the ranks' common store"])
        self._end()

    def _end(self) -> None:
        """End this process after another rank's failure; the main thread may wait forever."""
        if not self.ending.acquire(blocking=False):
            return
        self.heard_at = time.monotonic()
        self.heard.set()
        _aside(lambda: self._ask(lambda store: store.set("news", "failed")))
        leave_flight_record(self.rank)
        if self._ask(lambda store: store.check(["gave_up"])) and (at := busy_at()):
            self._note(f"not in a collective, but at {at} when others gave up waiting")
        time.sleep(LINGER_S + MARGIN_S)
        if self.leaving:  # the main thread ends this process, unless the store blocks it
            time.sleep(2 * MARGIN_S)
        if not self.over.is_set():
            os._exit(1)

    def gave_up(self) -> None:
        """Announce a time-out here; ranks outside of the collective then print their place."""
        self._ask(lambda store: store.set("gave_up", "yes"))

    def too_late(self) -> bool:
        """Return True when errors may be a consequence of the failed rank's end."""
        return self.heard.is_set() and time.monotonic() - self.heard_at > LINGER_S - 0.5

    def follows(self) -> bool:
        """Return True if a peer stopped answering because of an error that another rank reports."""
        return self.heard.wait(LINGER_S)

    def is_first_with(self, text: str, *, names_others: bool) -> bool:
        digest = cause_of(text)
        is_first = self._ask(lambda store: store.add(f"said/{digest}", 1)) in (1, None)
        self.alike = f"alike/{digest}" if is_first and names_others else ""
        self._ask(lambda store: store.append(f"alike/{digest}", f"{self.rank} "))
        return is_first

    def leave(self, spoke: bool) -> None:
        """Announce the failure, and let the other ranks report before this rank ends."""
        self.leaving = True
        self._say_farewell()
        self._ask(lambda store: store.set("news", "failed"))
        self._wait_for_all_to_end()
        alike = self._ask(lambda store: store.get(self.alike)) if self.alike else None
        ranks = sorted({int(rank) for rank in (alike or b"").split()} - {self.rank})
        if ranks:
            self._note(f"{counted(ranks)} found the same")
        time.sleep(MARGIN_S if self.keeps_store else 0 if spoke else MARGIN_S / 4)

    def finish(self) -> None:
        """Wait until all ranks have finished. Until then, a rank that dies is detected."""
        if self._ask(lambda store: store.add("through", 1)) == self.size:
            self._ask(lambda store: store.set("news", "over"))
        self.over.wait()
        self._say_farewell()
        if self.keeps_store:
            self._wait_for_all_to_end()
        else:
            self._ask(lambda store: store.add("ended", 1))

    def _wait_for_all_to_end(self) -> None:
        began, count = time.monotonic(), self._ask(lambda store: store.add("ended", 1))
        while count is not None and count < self.size and time.monotonic() - began < LINGER_S:
            time.sleep(0.05)
            count = self._ask(lambda store: store.add("ended", 0))

    def _note(self, text: str) -> None:
        say([f"[rank{self.rank}]: note: {text} (rank {self.rank} on {node_name()})"])

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        """Return the store's answer; None if the store is gone."""
        try:
            return question(self.store)
        except RuntimeError:
            return None
