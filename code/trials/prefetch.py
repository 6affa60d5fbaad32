"""Test 01.2: `ahead(batches, depth)` gives the batches, and reads up to `depth` of them ahead.

While the loop's body runs, a thread has to read. The test therefore waits in the body until the
batches ahead have been read, and counts them. It also stops early, and lets the reading fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from trials.ranks import Ranks

BATCHES, DEPTHS, TAKEN, FAILS_AT = 8, (1, 3), 2, 5
# A thread may hold a batch for which there is no room yet.
IN_HAND = 1
# What has not happened after so long never will; a moment, in which too much would be read.
PATIENCE_S, MOMENT_S = 3.0, 0.02
END = "the end"


class Source:
    """Iterator over batches that counts how many have been read; it may fail."""

    def __init__(self, fails_at: int = -1) -> None:
        self.batches, self.fails_at = [object() for _ in range(BATCHES)], fails_at
        self.read, self.changed = 0, threading.Condition()

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        with self.changed:
            if self.read == self.fails_at:
                raise OSError("the file is damaged")
            if self.read == BATCHES:
                raise StopIteration
            self.read += 1
            self.changed.notify_all()
            return self.batches[self.read - 1]

    def waits_for(self, count: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.read >= count, PATIENCE_S)


def test(ahead: Any, ranks: Ranks) -> None:
    for depth in DEPTHS:
        ranks.begin(f"depth {depth}")
        reads_ahead(ahead, depth, ranks)
        ranks.begin(f"depth {depth}, the reading fails")
        tells_errors(ahead, depth, ranks)
        ranks.begin(f"depth {depth}, the loop is left")
        ends(ahead, depth, ranks)


def reads_ahead(ahead: Any, depth: int, ranks: Ranks) -> None:
    source = Source()
    batches = iter(ahead(source, depth))
    for number, right in enumerate(source.batches, 1):
        batch = result_of(lambda: next(batches, END))
        others = [n for n, other in enumerate(source.batches, 1) if other is batch]
        got = f"#{others[0]}" if others else str(batch)
        ranks.holds("the batches", batch is right, number=number, of=BATCHES, got=got)
        wanted = min(number + depth, BATCHES)
        ok = source.waits_for(wanted)
        ranks.holds("read ahead", ok, number=number, read=source.read, wanted=wanted)
        time.sleep(MOMENT_S)
        ok = source.read <= wanted + IN_HAND
        ranks.holds("not too far", ok, number=number, read=source.read, depth=depth)
    ranks.holds("the end", result_of(lambda: next(batches, END)) is END)


def tells_errors(ahead: Any, depth: int, ranks: Ranks) -> None:
    kept: list[object] = []

    def loop() -> object:
        kept.extend(ahead(Source(FAILS_AT), depth))
        return END

    found = result_of(loop)
    mistake = "hidden" if found is END else "waits"
    ranks.holds("the error", isinstance(found, OSError), mistake=mistake)
    ranks.holds("all before", len(kept) == FAILS_AT, read=len(kept), wanted=FAILS_AT)


def ends(ahead: Any, depth: int, ranks: Ranks) -> None:
    before = set(threading.enumerate())
    source = Source()
    batches = iter(ahead(source, depth))
    for _ in range(TAKEN):
        next(batches)
    source.waits_for(TAKEN + depth)
    time.sleep(10 * MOMENT_S)  # now it waits for room
    getattr(batches, "close", lambda: None)()
    until_s = time.monotonic() + PATIENCE_S
    while set(threading.enumerate()) - before and time.monotonic() < until_s:
        time.sleep(MOMENT_S)
    ranks.holds("the thread ends", not set(threading.enumerate()) - before, taken=TAKEN)


def result_of(work: Callable[[], object]) -> object:
    """Return the function's result or error, or a text if it waits forever."""
    found: list[object] = ["nothing, for ever"]

    def run() -> None:
        try:
            found[0] = work()
        except Exception as error:
            found[0] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return found[0]
