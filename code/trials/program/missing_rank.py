"""Test 16.1: `Watchdog(store, rank, size, timeout_s, accuse)` names the rank that is missing.

dog.arrive(number)      before each collective; from then on the main thread may wait in it
dog.stop()              after the last one; then its thread asks the store no more
accuse(ranks)           is called by the watchdog, while the main thread waits

All ranks really wait in an all-reduce. The absent rank comes when all others have named it, or
after a limit. Clocks of nodes differ, so in one case the learner's file gets a different clock on
each rank."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from process.own_program import KEPT
from process.rendezvous import own_connection
from trials.ranks import Ranks

TIMEOUT_S, LATE_S = 1.5, 0.6
# Time in which the absent rank has to be named.
LIMIT = timedelta(seconds=4 * TIMEOUT_S)
EARLY = 0.9
WAITS = timedelta(seconds=1)  # of a store for a key
STEPS, STALLS_IN = 3, 1
LATE, STALLS, CLOCKS, NEVER = (
    "all ranks come",
    "a rank stalls",
    "clocks differ",
    "a rank never comes",
)
CASES = {1: [LATE], 2: [LATE], 3: [STALLS, CLOCKS], 4: [NEVER]}
CLOCK_NAMES = ("time", "monotonic", "perf_counter")
AHEAD_S = 1000.0  # of the clock of a rank ahead of the one of the rank before


class Asked(dist.PrefixStore):
    """Store of a watchdog that notes when it was last asked."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            self.__dict__["last_s"] = time.monotonic()
        return super().__getattribute__(name)


def test(Watchdog: Any, ranks: Ranks) -> None:
    for case in CASES[ranks.size]:
        ranks.begin(case)
        ahead_s = AHEAD_S * (1 + ranks.rank) if case == CLOCKS else 0.0
        with other_clocks(vars(sys.modules[Watchdog.__module__]), ahead_s):
            attempt(Watchdog, ranks, case)


def attempt(Watchdog: Any, ranks: Ranks, case: str) -> None:
    rank, size = ranks.rank, ranks.size
    absent, threads = {LATE: -1, STALLS: 1}.get(case, size - 1), set(threading.enumerate())
    stalls_in = 0 if case == NEVER else STALLS_IN
    store = dist.PrefixStore(f"watch/{size}/{case}", ranks.store)
    waits_since, returned, named = [0.0], [True], []

    def accuse(accused: Any) -> None:
        after_s = time.monotonic() - waits_since[0]
        ranks_of = accused if isinstance(accused, Iterable) else ()
        named.append((sorted({int(one) for one in ranks_of}), after_s, returned[0]))
        told.set(f"{rank}", "")

    told = dist.PrefixStore("told", own_connection(store))
    learners = Asked("", own_connection(store))
    learners.set_timeout(WAITS)
    is_there = case != NEVER or rank != absent
    dog = Watchdog(learners, rank, size, TIMEOUT_S, accuse) if is_there else None
    KEPT.append(dog)
    for number in range(STEPS):
        if rank == absent and number == stalls_in:
            with contextlib.suppress(RuntimeError):  # the limit is over
                others = dist.PrefixStore("told", store)
                others.wait([f"{one}" for one in range(size) if one != rank], LIMIT)
        if case == LATE and rank == size - 1:
            time.sleep(LATE_S)
        waits_since[0] = time.monotonic()
        returned[0] = False
        if dog is not None:
            dog.arrive(number)
        returned[0] = True
        dist.all_reduce(torch.zeros(1))
        if rank != absent and number == stalls_in and absent >= 0:
            asks = time.monotonic() - learners.__dict__["last_s"] < 2 * TIMEOUT_S
            judge(ranks, named, absent, asks, "named" + " by other clocks" * (case == CLOCKS))
    if dog is not None:
        dog.stop()
    accused = sorted({one for each, *_ in named for one in each} - {absent})
    ranks.holds("healthy", not accused, accused=accused, timeout=TIMEOUT_S)
    if case == LATE:
        time.sleep(TIMEOUT_S * 2.5)  # the thread may sleep when it is stopped
        ranks.holds("stopped", set(threading.enumerate()) <= threads)


def judge(
    ranks: Ranks, named: list[tuple[list[int], float, bool]], absent: int, asks: bool, what: str
) -> None:
    """Judge the first name that this rank gave while it waited."""
    accused, after_s, returned = named[0] if named else ([], 0.0, True)
    mistake = ""
    if not named:
        mistake = "nobody" if asks else "silent"
    elif not accused:
        mistake = "no list"
    elif accused != [absent]:
        mistake = "others" if absent in accused else "ahead"
    elif after_s < EARLY * TIMEOUT_S:
        mistake = "early"
    elif not returned:
        mistake = "in arrive"
    ranks.holds(what, not mistake, mistake=mistake, accused=accused, absent=absent,
                after=after_s, timeout=TIMEOUT_S, limit=LIMIT.seconds)  # fmt: skip


@contextlib.contextmanager
def other_clocks(names: dict[str, Any], ahead_s: float) -> Iterator[None]:
    """Let all clocks that a module has imported show another time."""

    def other(clock: Any) -> Any:
        return lambda: clock() + ahead_s

    clocks = {name: other(getattr(time, name)) for name in CLOCK_NAMES}
    module = types.SimpleNamespace(**{**vars(time), **clocks})
    before = dict(names)
    for name, value in before.items():
        if value is time:
            names[name] = module
        elif getattr(value, "__module__", "") == "time" and value.__name__ in clocks:
            names[name] = clocks[value.__name__]
    try:
        yield
    finally:
        names |= before
