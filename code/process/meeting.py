"""How ranks that end learn of each other: through the store in which they met, and in a ring.

In the store, a few keys:

    said/<digest>   how many ranks have this error; the first of them speaks
    alike/<digest>  which ranks they are; the first tells in the end who the others were
    through         how many ranks have done their work
    gave_up         a rank has waited for the others until its time-out
    news            "failed" once a rank has failed, "over" once all are through
    dead            the first rank that was missed
    ended           how many ranks have said what they had to say

In the ring (neighbour.py) each rank watches the next one, for ranks that are killed. The news goes
round there as well: the store may have been in the rank that is dead.

A rank that fails lingers for a moment. torchrun ends all others as soon as one has left, also one
that is about to tell of an error of its own; and the store may live in the very rank that leaves.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from process.errors import LostRankError
from process.neighbour import DEAD, FAILED, WELL, Neighbour
from process.places import busy_at, leave_flight_record
from process.telling import cause_of, counted, node_name, say, told

LINGER_S = 3.0
"""For an error of their own that others are about to tell."""
GRACE_S = 1.0
"""Who ends a whole job kills rank after rank, also the one that would tell of the others."""
MARGIN_S = 1.0
"""Who failed leaves first, so that a launcher names it; then who heard of it; the store last."""
ANSWER = timedelta(seconds=5)
LONG = timedelta(days=30)


def own_connection(store: Any) -> dist.Store:
    """The other may be busy waiting. (PyTorch's type stubs do not know `clone` yet.)"""
    made: dist.Store = store.clone()
    return made


def _aside(work: Callable[[], object]) -> None:
    """In a thread: a store whose machine is gone may never answer."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:  # a full device has no memory for a thread either
        work()


class Meeting:
    """One rank's view of the others. Only `watch` raises: a store that is gone ends the talk."""

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may start us anew
        self.shared = dist.PrefixStore(f"ends/{attempt}", store)
        self.store = own_connection(self.shared)
        self.store.set_timeout(ANSWER)
        self.rank, self.size = rank, world_size
        self.agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self.keeps_store = rank == 0 and not self.agent
        self.neighbour: Neighbour | None = None
        self.over = threading.Event()  # all ranks are through
        self.heard = threading.Event()  # of a rank that has failed
        self.heard_at = 0.0
        self.told_place = threading.Lock()  # once
        self.leaving = False  # with an error of our own
        self.alike = ""  # the key of those that have the error that this rank speaks of

    def watch(self) -> None:
        """From now on this process ends when another rank fails or dies, whatever it waits for."""
        if self.size == 1:
            return
        _aside(self._wait_for_news)
        try:
            self.neighbour = Neighbour(self.shared, self.rank, self.size)
        except OSError as error:
            after = (self.rank + 1) % self.size
            far = f"rank {after} cannot be reached from {node_name()} ({error})"
            say([f"[rank{self.rank}]: note: {far}; if it dies, others wait for a time-out"])
            return
        atexit.register(self.neighbour.leave, WELL)  # of a program that ends by itself
        _aside(self._watch_neighbour)

    def _watch_neighbour(self) -> None:
        assert self.neighbour is not None
        farewell = self.neighbour.farewell(self._note)
        if farewell == WELL:
            return
        if farewell == DEAD and not self.heard.is_set():  # or a launcher ends who is left
            self._tell_of(self.neighbour.who)
        self._end()

    def _tell_of(self, dead: str) -> None:
        """Nobody else has missed it. A launcher may have killed it for another one's death."""
        first: list[str] = []
        _aside(lambda: first.append(self._first_missed(dead)))
        time.sleep(GRACE_S)
        if not self.over.is_set():
            lost = LostRankError([dead] if dead in first else [*first, dead])
            say(told(lost, self.rank, self.size))

    def _wait_for_news(self) -> None:
        store = own_connection(self.shared)
        try:
            store.wait(["news"], LONG)  # sleeps in the socket, without Python's lock
            if store.get("news") == b"over":
                self.over.set()
                return
        except RuntimeError:  # who kept the store is dead; a rank is missed by the one before it
            if self.agent and self.rank == 0:
                self._tell_of("torchrun's agent, which kept the ranks' common store")
            elif self.rank == self.size - 1 and self.neighbour is None:  # at the start
                self._tell_of(f"rank 0 (on {os.environ['MASTER_ADDR']})")
            else:
                time.sleep(GRACE_S)
        self._end()

    def _end(self) -> None:
        """Another rank has failed, and the main thread may be waiting for that one for ever."""
        self.heard_at = self.heard_at or time.monotonic()
        self.heard.set()
        _aside(self._spread_failure)
        leave_flight_record(self.rank)
        if self._has("gave_up") and (place := busy_at()) and not self.told_place.locked():
            self.told_place.acquire()
            self._note(f"not in a collective, but at {place} when others gave up waiting")
        time.sleep(LINGER_S + MARGIN_S)
        if self.leaving:  # the main thread ends this process, unless the store holds it up
            time.sleep(2 * MARGIN_S)
        if not self.over.is_set():
            os._exit(1)

    def _spread_failure(self) -> None:
        if self.neighbour is not None:
            self.neighbour.leave(FAILED)
        self._set("news", "failed")

    def gave_up(self) -> None:
        """A collective has timed out here. Who is not in one is to say where it is instead."""
        self._set("gave_up", "yes")

    def too_late(self) -> bool:
        """From now on errors are what follows when the rank that failed leaves."""
        return self.heard.is_set() and time.monotonic() - self.heard_at > LINGER_S - 0.5

    def follows(self) -> bool:
        """Whether a peer that stopped answering did so because of what another rank tells."""
        return self.heard.wait(LINGER_S)

    def is_first_with(self, text: str, *, names_others: bool) -> bool:
        digest = cause_of(text)
        is_first = self._add(f"said/{digest}", 1) in (1, None)
        self.alike = f"alike/{digest}" if is_first and names_others else ""
        self._append(f"alike/{digest}", f"{self.rank} ")
        return is_first

    def leave(self, spoke: bool) -> None:
        """Tells of the failure, and lets the others come to word before this rank goes."""
        self.leaving = True
        self._spread_failure()
        self._wait_for_all("ended")
        if others := self._others_alike():
            self._note(f"{counted(others)} found the same")
        time.sleep(MARGIN_S if self.keeps_store else 0 if spoke else MARGIN_S / 4)

    def finish(self) -> None:
        """Nobody leaves before all are through: until then each watches the next one."""
        if self.size == 1:
            return
        if self._add("through", 1) == self.size:
            self._set("news", "over")
        self.over.wait()
        if self.neighbour is not None:
            self.neighbour.leave(WELL)
        if self.keeps_store:
            self._wait_for_all("ended")
        else:
            self._add("ended", 1)

    def _wait_for_all(self, key: str) -> None:
        began, count = time.monotonic(), self._add(key, 1)
        while count is not None and count < self.size and time.monotonic() - began < LINGER_S:
            time.sleep(0.05)
            count = self._add(key, 0)

    def _first_missed(self, rank: str) -> str:
        try:
            return bytes(own_connection(self.shared).compare_set("dead", "", rank)).decode()
        except RuntimeError:
            return rank

    def _add(self, key: str, amount: int) -> int | None:
        try:
            return int(self.store.add(key, amount))
        except RuntimeError:
            return None

    def _has(self, key: str) -> bool:
        try:
            return bool(self.store.check([key]))
        except RuntimeError:
            return False

    def _note(self, text: str) -> None:
        say([f"[rank{self.rank}]: note: {text} (rank {self.rank} on {node_name()})"])

    def _others_alike(self) -> list[int]:
        try:
            ranks = self.store.get(self.alike).split() if self.alike else []
        except RuntimeError:
            return []
        return sorted(rank for one in ranks if (rank := int(one)) != self.rank)

    def _append(self, key: str, value: str) -> None:
        store: Any = self.store  # PyTorch's type stubs do not know `append` yet
        try:
            store.append(key, value)
        except RuntimeError:
            return

    def _set(self, key: str, value: str) -> None:
        try:
            self.store.set(key, value)
        except RuntimeError:
            return
