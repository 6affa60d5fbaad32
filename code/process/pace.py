"""Keeps a device slot that is no GPU at its rate, whatever its neighbours do.

Four slots may share two cores. Without this, a slot computes faster while its neighbour waits,
which no GPU does, and what is measured is the machine's scheduler. So each stretch of computing is
made to last COURSE_DEVICE_PACE times the processor time that it used, by sleeping at its end: with
a factor of 3 on two cores, four slots have all the time they need, and one alone is no faster.

A stretch ends where the program communicates, and with a micro-batch or a step. Messages are not
paced: they take what they take on the link. Without the variable, or with 1, nothing is paced.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from process.profile_ranges import named

SHORTEST_SLEEP_S = 100e-6  # what the kernel adds to a sleep is of this size


class Pace:
    """Of one thread, the one that computes; those that send and receive for it are not counted."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.resume()

    def resume(self) -> None:
        """From here on the thread computes; what it waited for before is no computing."""
        self.began_s, self.used_s = time.perf_counter(), time.thread_time()

    def catch_up(self) -> None:
        """Sleeps until the stretch has lasted as long as its processor time asks for."""
        computed_s = time.thread_time() - self.used_s
        ends_s = self.began_s + self.factor * computed_s
        rest_s = ends_s - time.perf_counter()
        if rest_s < SHORTEST_SLEEP_S:
            return  # owed with the next stretch, unless that begins anew
        with named("pace"):
            time.sleep(rest_s)
        # What the sleep lasted too long is taken off the next one.
        self.began_s, self.used_s = ends_s, self.used_s + computed_s


def factor_asked() -> float:
    try:
        factor = float(os.environ.get("COURSE_DEVICE_PACE") or 1)
    except ValueError:
        return 1.0
    return factor if math.isfinite(factor) and factor > 1 else 1.0


PACE = Pace(factor_asked()) if factor_asked() > 1 and not torch.accelerator.is_available() else None


def catch_up() -> None:
    if PACE is not None:
        PACE.catch_up()


def resume() -> None:
    if PACE is not None:
        PACE.resume()


def computing(name: str) -> AbstractContextManager[object]:
    """A stretch of computing, with its name in the profile; the sleep at its end belongs to it."""
    return named(name) if PACE is None else _paced(name)


@contextmanager
def _paced(name: str) -> Iterator[None]:
    resume()
    with named(name):
        yield
        catch_up()


def communicating(name: str) -> AbstractContextManager[object]:
    """Ends the stretch of computing around it; the next one begins when this is over."""
    return named(name) if PACE is None else _between(name)


@contextmanager
def _between(name: str) -> Iterator[None]:
    catch_up()
    with named(name):
        yield
    resume()
