"""Pacing of a device slot without a GPU: the sleeps. The box chooses the rate (`box/devices.py`).

Four slots may share two cores. Without pacing, a slot computes faster while its neighbour waits,
which a GPU does not. Then one would measure the machine's scheduler. So each interval of computing
is stretched, by a sleep at its end, to COURSE_DEVICE_PACE times its processor time. With a factor
of 3 on two cores, four slots have enough time, and one alone is no faster.

An interval ends at communication, and with a micro-batch or a step. Messages are not paced. Without
the variable, or with 1, nothing is paced.

A GPU takes the same time for the same pass, but a core that shares its caches varies by a sixth
between micro-batches. So an interval counts with the median of recent intervals of its name, if
that is close to its own time.

    with computing("forward"): ...               # sleeps at its end
    with communicating("all-reduce"): ...        # sleeps before it
    keep_pace()                                  # once, in a program that uses neither"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from statistics import median
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from process.profile_ranges import is_recording, named

SHORTEST_SLEEP_S = 100e-6  # the kernel's inaccuracy of a sleep has this size
REMEMBERED_INTERVALS = 25  # three steps of eight micro-batches, and one more
LARGEST_NOISE = 0.25  # share of the interval's own time; a larger difference means other work
NUMBER = re.compile(r"\d+")  # the first number in a name distinguishes micro-batches


class Usual:
    """Median processor time of intervals, which removes the machine's random variation."""

    def __init__(self) -> None:
        self.lately: dict[Hashable, deque[float]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED_INTERVALS)
        )

    def time_s(self, interval: Hashable, used_s: float) -> float:
        lately = self.lately[interval]
        lately.append(used_s)
        least, most = (1 - LARGEST_NOISE) * used_s, (1 + LARGEST_NOISE) * used_s
        return min(max(median(lately), least), most)


class Pace:
    """Pace of the computing thread; threads that send and receive for it do not count."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.waited = open_wait_times()
        self.slept_s = 0.0
        self.everywhere = False  # outside of named intervals, too
        self.in_interval = True
        self.usual, self.name, self.part = Usual(), "", 0
        self.resume()

    def resume(self) -> None:
        """Begin an interval of computing; earlier waits do not belong to it."""
        self.began_s, self.used_s = self.passed_s(), time.thread_time()

    def passed_s(self) -> float:
        """Return the time in which the thread computed, was ready to run, or slept here. Waits for
        messages do not count, wherever they happen."""
        if self.waited is None:
            return time.perf_counter()
        return time.thread_time() + waited_s(self.waited) + self.slept_s

    def catch_up(self) -> None:
        """Sleep until the interval has lasted as long as its processor time requires."""
        computed_s = time.thread_time() - self.used_s
        ends_s = self.began_s + self.factor * self.usual_s(computed_s)
        rest_s = ends_s - self.passed_s()
        if rest_s < SHORTEST_SLEEP_S:
            return  # added to the next interval, unless that begins anew
        self.sleep(rest_s)
        # The next sleep is shortened by the excess of this one.
        self.began_s, self.used_s = ends_s, self.used_s + computed_s

    def usual_s(self, computed_s: float) -> float:
        """Return the usual time. An interval without a name is compared with no other."""
        self.part += 1
        if not self.name:
            return computed_s
        return self.usual.time_s((self.name, self.part, torch.is_grad_enabled()), computed_s)

    def sleep(self, seconds: float) -> None:
        began_s, waited_before_s = time.perf_counter(), waited_s(self.waited)
        sleep_operator()(seconds) if is_recording() else time.sleep(seconds)
        # A late wake-up counts once, as waiting for a core.
        late_s = waited_s(self.waited) - waited_before_s
        self.slept_s += time.perf_counter() - began_s - late_s


@cache
def sleep_operator() -> Callable[[float], None]:
    """Return a sleep that profile readers count as computing, like a matmul."""
    OPERATORS.define("pace(float seconds) -> ()")
    OPERATORS.impl("pace", time.sleep, "CompositeExplicitAutograd")
    operator: Callable[[float], None] = torch.ops.course.pace
    return operator


OPERATORS = torch.library.Library("course", "DEF")


def open_wait_times(thread: str = "/proc/thread-self") -> int | None:
    """Open the kernel's statistics of a thread. Without them, return None: the clock is used, and
    only waits between `communicating` and `computing` are excluded."""
    try:
        return os.open(f"{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def waited_s(account: int | None) -> float:
    """Return the seconds in which the thread was ready but waited for a core."""
    return 0.0 if account is None else int(os.pread(account, 64, 0).split()[1]) / 1e9


def factor_asked() -> float:
    return float(os.environ.get("COURSE_DEVICE_PACE") or 1)


def on_processor() -> bool:
    """Return True if process/device.py puts a rank on the CPU."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator is None or accelerator.type == "mps"


FACTOR = factor_asked()
PACE = Pace(FACTOR) if FACTOR > 1 and on_processor() else None


def catch_up() -> None:
    if PACE is not None:
        PACE.catch_up()


def resume() -> None:
    if PACE is not None:
        PACE.resume()


def computing(name: str) -> AbstractContextManager[object]:
    """Mark an interval of computing, named in the profile and including the sleep at its end."""
    return named(name) if PACE is None else _paced(PACE, name)


@contextmanager
def _paced(pace: Pace, name: str) -> Iterator[None]:
    pace.resume()
    pace.in_interval, pace.name, pace.part = True, NUMBER.sub("", name, count=1), 0
    with named(name):
        yield
        pace.catch_up()
    # Until the next interval the program communicates and does bookkeeping. A GPU's host does this
    # too, and it does not slow down the GPU.
    pace.in_interval, pace.name = pace.everywhere, ""


def communicating(name: str) -> AbstractContextManager[object]:
    """End the current interval of computing; the next one begins after the communication."""
    return named(name) if PACE is None else _between(PACE, name)


@contextmanager
def _between(pace: Pace, name: str) -> Iterator[None]:
    if pace.in_interval:
        pace.catch_up()
    with named(name):
        yield
    pace.resume()


def keep_pace() -> None:
    """Pace a program without `computing`: sleep after each module's forward, before each
    parameter's gradient is passed on (when DDP sends it), and after an optimizer step. Computation
    outside of modules is added to the next sleep."""
    if PACE is None:
        return
    PACE.everywhere = PACE.in_interval = True
    seen: WeakSet[nn.Module] = WeakSet()

    def after_forward(module: nn.Module, _inputs: object, _output: object) -> None:
        catch_up()
        if module in seen:
            return
        seen.add(module)
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad:
                parameter.register_hook(lambda _gradient: catch_up())

    def after_step(*_: object) -> None:
        catch_up()
        resume()

    register_module_forward_hook(after_forward)
    register_optimizer_step_post_hook(after_step)
