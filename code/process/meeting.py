"""How ranks that end learn of each other: a few keys in the store through which they met.

    place/<rank>    node and process number, written by every rank at the start
    said/<digest>   how many ranks have this error; the first of them speaks
    failed          set by the first rank that fails: who waits for it in a collective hears of it
    here/<rank>     written by who has heard of that: a rank that was killed is not among them
    ended           how many ranks have said what they had to say

A rank that fails lingers for a moment. torchrun ends all others as soon as one has left, also one
that is about to tell of an error of its own; and the store may live in the very rank that leaves.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

LINGER_S = 3.0
"""For an error of their own that others are about to tell."""
ANSWER_S = 2.0
"""For every rank that lives to say that it has heard: a thread of its own does, at once."""
MARGIN_S = 1.0
"""Who failed leaves first, so that a launcher names it; then who heard of it; the store last."""
ANSWER = timedelta(seconds=5)
LONG = timedelta(days=30)


def open_store(rank: int, world_size: int, timeout: timedelta) -> dist.Store:
    """That of torchrun's agent, or one that rank 0 keeps; a private one for a rank alone."""
    if world_size == 1 and "MASTER_ADDR" not in os.environ:
        return dist.HashStore()
    found = dist.rendezvous("env://", rank=rank, world_size=world_size, timeout=timeout)
    store: dist.Store = next(iter(found))[0]
    return store


def own_connection(store: Any) -> dist.Store:
    """The other may be busy waiting. (PyTorch's type stubs do not know `clone` yet.)"""
    made: dist.Store = store.clone()
    return made


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Meeting:
    """One rank's view of the keys. No method raises: a store that is gone only ends the talk."""

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may start us anew
        self.shared = dist.PrefixStore(f"ends/{attempt}", store)
        self.store = own_connection(self.shared)
        self.store.set_timeout(ANSWER)
        self.rank, self.size = rank, world_size
        agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        self.keeps_store = rank == 0 and not agent
        self.finished = False  # the program is through: news no longer matter
        self.heard_at: float | None = None  # when another rank's failure became known
        self._set(f"place/{rank}", f"{node_name()}, process {os.getpid()}")

    def watch(self) -> None:
        """Ends this rank when another has failed: it may be waiting for that one for ever."""
        if self.size > 1:
            threading.Thread(target=self._wait_for_news, daemon=True).start()

    def _wait_for_news(self) -> None:
        store = own_connection(self.shared)
        try:
            store.wait(["failed"], LONG)  # sleeps in the socket, without Python's lock
        except RuntimeError:
            pass  # the store is gone, and with it the rank or the agent that kept it
        else:
            if store.get("failed") == b"none":
                return
            self._set(f"here/{self.rank}", "yes", store)
        self.heard_at = time.monotonic()
        time.sleep(LINGER_S + MARGIN_S)
        if not self.finished:
            os._exit(1)

    def too_late(self) -> bool:
        """From now on errors are what follows when the rank that failed leaves."""
        return self.heard_at is not None and time.monotonic() - self.heard_at > LINGER_S - 0.5

    def is_first_with(self, text: str) -> bool:
        """Numbers do not count: addresses and ports differ where the cause is one."""
        digest = hashlib.sha256(re.sub(r"\d+", "#", text).encode()).hexdigest()
        return self._add(f"said/{digest}", 1) in (1, None)

    def lost(self) -> list[str]:
        """The ranks that are no more, each with its place; asked when one stopped answering.

        Where the store is gone, it is the rank that kept it.
        """
        self._set("failed", "yes")
        self._set(f"here/{self.rank}", "yes")
        missing, began = set(range(self.size)) - {self.rank}, time.monotonic()
        try:
            while missing and time.monotonic() - began < ANSWER_S:
                missing = {rank for rank in missing if not self.store.check([f"here/{rank}"])}
                time.sleep(0.05)
            places = {rank: self.store.get(f"place/{rank}").decode() for rank in sorted(missing)}
        except RuntimeError:
            return ["rank 0, which kept the ranks' common store"] if self.rank else []
        return [f"rank {rank} (on {place})" for rank, place in places.items()]

    def leave(self, spoke: bool) -> None:
        """Tells of the failure, and lets the others come to word before this rank goes."""
        self._set("failed", "yes")
        began, count = time.monotonic(), self._add("ended", 1)
        while count is not None and count < self.size and time.monotonic() - began < LINGER_S:
            time.sleep(0.05)
            count = self._add("ended", 0)
        time.sleep(MARGIN_S if self.keeps_store else 0 if spoke else MARGIN_S / 4)

    def finish(self) -> None:
        """All is well here; the rank that keeps the store says so before it takes it away."""
        self.finished = True
        if self.keeps_store:
            self._set("failed", "none")

    def _add(self, key: str, amount: int) -> int | None:
        try:
            return int(self.store.add(key, amount))
        except RuntimeError:
            return None

    def _set(self, key: str, value: str, store: dist.Store | None = None) -> None:
        try:
            (store or self.store).set(key, value)
        except RuntimeError:
            return
