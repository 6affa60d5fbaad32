"""Keeps a device slot that is no GPU at its rate, whatever its neighbours do.

Four slots may share two cores. Without this, a slot computes faster while its neighbour waits,
which no GPU does, and what is measured is the machine's scheduler. So each stretch of computing is
made to last COURSE_DEVICE_PACE times the processor time that it used, by sleeping at its end: with
a factor of 3 on two cores, four slots have all the time they need, and one alone is no faster.

A stretch ends where the program communicates, and with a micro-batch or a step. Messages are not
paced: they take what they take on the link. Without the variable, or with 1, nothing is paced.

A GPU needs the same time for the same pass, a core that shares its caches with others does not:
here it differs by a sixth from one micro-batch to the next. So a stretch counts with what those of
its name used of late, as far as that is near to what it used itself.

    with computing("forward"): ...               # sleeps at its end
    with communicating("all-reduce"): ...        # sleeps before it
    keep_pace()                                  # once, in a program that says neither
"""

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

SHORTEST_SLEEP_S = 100e-6  # what the kernel adds to a sleep is of this size
REMEMBERED_STRETCHES = 25  # three steps of eight micro-batches, and one more
LARGEST_NOISE = 0.25  # of a stretch's own time; what differs more is other work
NUMBER = re.compile(r"\d+")  # the first one in a name tells micro-batches from each other


class Usual:
    """The processor time of stretches, without what the machine adds to one and not to the next."""

    def __init__(self) -> None:
        self.lately: dict[Hashable, deque[float]] = defaultdict(
            lambda: deque(maxlen=REMEMBERED_STRETCHES)
        )

    def time_s(self, stretch: Hashable, used_s: float) -> float:
        lately = self.lately[stretch]
        lately.append(used_s)
        least, most = (1 - LARGEST_NOISE) * used_s, (1 + LARGEST_NOISE) * used_s
        return min(max(median(lately), least), most)


class Pace:
    """Pace of the thread that computes; those that send and receive for it are not counted."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.waited = open_wait_times()
        self.slept_s = 0.0
        self.everywhere = False  # outside of named stretches, too
        self.in_stretch = True
        self.usual, self.name, self.part = Usual(), "", 0
        self.resume()

    def resume(self) -> None:
        """Begins a stretch of computing; what the thread waited for before is not part of it."""
        self.began_s, self.used_s = self.passed_s(), time.thread_time()

    def passed_s(self) -> float:
        """Time in which the thread computed, would have if others had left it a core, or slept
        here. What it waits for a message is not in it, wherever that happens."""
        if self.waited is None:
            return time.perf_counter()
        return time.thread_time() + waited_s(self.waited) + self.slept_s

    def catch_up(self) -> None:
        """Sleeps until the stretch has lasted as long as its processor time asks for."""
        computed_s = time.thread_time() - self.used_s
        ends_s = self.began_s + self.factor * self.usual_s(computed_s)
        rest_s = ends_s - self.passed_s()
        if rest_s < SHORTEST_SLEEP_S:
            return  # owed with the next stretch, unless that begins anew
        self.sleep(rest_s)
        # What the sleep lasted too long is taken off the next one.
        self.began_s, self.used_s = ends_s, self.used_s + computed_s

    def usual_s(self, computed_s: float) -> float:
        """Programs that name no stretches have none to compare with."""
        self.part += 1
        if not self.name:
            return computed_s
        return self.usual.time_s((self.name, self.part, torch.is_grad_enabled()), computed_s)

    def sleep(self, seconds: float) -> None:
        began_s, waited_before_s = time.perf_counter(), waited_s(self.waited)
        sleep_operator()(seconds) if is_recording() else time.sleep(seconds)
        # Waking up late counts once, as waiting for a core.
        late_s = waited_s(self.waited) - waited_before_s
        self.slept_s += time.perf_counter() - began_s - late_s


@cache
def sleep_operator() -> Callable[[float], None]:
    """A sleep that every reader of profiles counts as computing, as it does a product."""
    OPERATORS.define("pace(float seconds) -> ()")
    OPERATORS.impl("pace", time.sleep, "CompositeExplicitAutograd")
    operator: Callable[[float], None] = torch.ops.course.pace
    return operator


OPERATORS = torch.library.Library("course", "DEF")


def open_wait_times() -> int | None:
    """The kernel's account of this thread; None where it keeps none: then the clock must do, and
    what the thread waits for between `communicating` and `computing` alone is left out."""
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def waited_s(account: int | None) -> float:
    """Seconds of waiting for a core, while the thread could have run."""
    return 0.0 if account is None else int(os.pread(account, 64, 0).split()[1]) / 1e9


def factor_asked() -> float:
    return float(os.environ.get("COURSE_DEVICE_PACE") or 1)


def on_processor() -> bool:
    """True where process/device.py puts a rank on the CPU."""
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
    """A stretch of computing, with its name in the profile; the sleep at its end belongs to it."""
    return named(name) if PACE is None else _paced(PACE, name)


@contextmanager
def _paced(pace: Pace, name: str) -> Iterator[None]:
    pace.resume()
    pace.in_stretch, pace.name, pace.part = True, NUMBER.sub("", name, count=1), 0
    with named(name):
        yield
        pace.catch_up()
    # Until the next stretch the program sends, receives and keeps its books. That is work of the
    # processor beside a GPU too, and no GPU gets slower by it.
    pace.in_stretch, pace.name = pace.everywhere, ""


def communicating(name: str) -> AbstractContextManager[object]:
    """Ends the stretch of computing around it; the next one begins when this is over."""
    return named(name) if PACE is None else _between(PACE, name)


@contextmanager
def _between(pace: Pace, name: str) -> Iterator[None]:
    if pace.in_stretch:
        pace.catch_up()
    with named(name):
        yield
    pace.resume()


def keep_pace() -> None:
    """Paces a program that says nothing of its computing: sleeps after each module's forward,
    before the gradient of each parameter is handed on (DDP sends it from there), and after a step
    of an optimizer. What is computed outside of modules is owed until then."""
    if PACE is None:
        return
    PACE.everywhere = PACE.in_stretch = True
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
