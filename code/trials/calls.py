"""Record of the collectives and messages that a learner's code calls, in order, and of the
waits.

A dispatch mode sees every call to a process group, through any function: `torch.distributed`,
functional collectives, methods of a group. It records a call before it runs, even if the call never
returns or ends the process."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from trials.watchdog import Notes

# Names of operators → names of the functions that learners call.
NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "allgather_base": "all_gather_single",
    "all_gather_into_tensor": "all_gather_single", "reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor": "reduce_scatter_single", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single", "recv_any_source": "recv",
}  # fmt: skip
# Factor on the first tensor's size: what a rank of n sends, if libraries use rings and trees.
FACTORS: dict[str, Callable[[int], float]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather_into_tensor": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "reduce_scatter_base": lambda n: n - 1,
    "send": lambda n: 1,
    "recv": lambda n: 0,
    "recv_any_source": lambda n: 0,
    "barrier": lambda n: 0,
}
MESSAGES = ("send", "recv")
ROOTS = {"broadcast": 2, "reduce": 3}  # index of the root among the arguments
NUMBER_BYTES = 8  # the trials' numbers are float64
MOST = 400  # limit of recorded calls per case; an endless loop makes many
# Type of a functional collective's result: the first use of its numbers waits for it.
NOT_YET_THERE = "AsyncCollectiveTensor"
ON_A_MESH = "DTensor"  # imported by few trials only, as its import takes seconds


class Calls(TorchDispatchMode):
    """Recorder of calls since `begin`; `unwaited` has the indices of calls without a wait."""

    def __init__(self, notes: Notes) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes = notes
        self.phase = ""
        self.gradients = 0  # gradients of this case so far
        self.made: list[dict[str, Any]] = []
        self.waits: list[dict[str, Any]] = []
        self.unwaited: list[int] = []
        self.dimensions: set[int] = set()  # of the results of all operators
        self.operators: Counter[str] = Counter()  # calls of each operator
        self.finished: weakref.WeakSet[Any] = weakref.WeakSet()
        self.main = threading.get_ident()
        self.is_on = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False; otherwise the mode would load the compiler first, for seconds."""
        return False

    def begin(self, size: int, case: str) -> None:
        self.notes.place = {"size": size, "case": case}
        self.gradients = 0
        for one in (self.made, self.waits, self.unwaited, self.dimensions, self.operators):
            one.clear()

    def install(self) -> None:
        """Wrap the functions that wait (waiting is not an operator), and watch threads."""
        future = torch._C.Future
        for kind, name in ((dist.Work, "wait"), (dist.Work, "synchronize"), (future, "wait")):
            setattr(kind, name, self._waiting(getattr(kind, name)))
        dist.Work.is_completed = self._asking(dist.Work.is_completed)  # type: ignore[method-assign]
        run = threading.Thread.run

        def watched(thread: threading.Thread) -> None:
            if not self.is_on:
                return run(thread)
            with self:
                run(thread)

        threading.Thread.run = watched  # type: ignore[method-assign,assignment]

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if any(one.__name__ == ON_A_MESH for one in types):
            return NotImplemented  # DTensor then calls its collectives on plain tensors
        name = func.overloadpacket.__name__.strip("_").removesuffix("_coalesced")
        if is_wait(func, name, types):
            self._waited(blocks=True)
        elif "c10d" in func.namespace and name != "wrap_tensor_autograd":
            self._note(name, args)
        self.operators[name] += 1
        result = func(*args, **(kwargs or {}))
        self.dimensions.update(*(one.shape for one in tensors_in(result)))
        return result

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        size = dist.get_world_size()
        tensors = list(tensors_in(args[1] if name == "gather" else args[0]))
        number_bytes = sum(one.numel() * one.element_size() for one in tensors)
        factor = FACTORS.get(name, all_but_one)(size)
        call = {
            "call": NAMES.get(name, name),
            "numbers": 0 if name == "barrier" else sum(one.numel() for one in tensors),
            "bytes": number_bytes, "sent": factor * number_bytes / NUMBER_BYTES, **self.now,
        }  # fmt: skip
        if name in MESSAGES:
            call |= {"peer": args[2], "tag": args[3]}
        if name in ROOTS:
            call["root"] = args[ROOTS[name]]
        if threading.get_ident() != self.main:
            call["thread"] = True
        if len(self.made) < MOST:
            self.unwaited.append(len(self.made))
            self.made.append(call)
            self.notes.write("call", **call)

    @property
    def now(self) -> dict[str, Any]:
        return {"phase": self.phase, "after": self.gradients}

    def sent(self, phase: str = "") -> float:
        """Return the amount of numbers that this rank has sent since the case began."""
        return float(sum(one["sent"] for one in self.made if phase in ("", one["phase"])))

    def _waited(self, blocks: bool, sync: bool = False) -> None:
        """Record a wait; a function that waits inside (`sync`) waits for the latest call."""
        if self.unwaited:  # (a thread may wait between two phases)
            self.notes.write("waited", number=self.unwaited.pop(), sync=sync, **self.now)
        if blocks:
            self.waits.append(self.now)

    def _waiting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wait(one: Any, *args: Any, **named: Any) -> Any:
            if one not in self.finished:
                self.finished.add(one)
                caller = sys._getframe(1).f_code.co_filename
                self._waited(blocks=True, sync=dist.__path__[0] in caller)
            return function(one, *args, **named)

        return wait

    def _asking(self, function: Callable[..., bool]) -> Callable[..., bool]:
        """Wrap the query for completion: after a yes, a rank need not wait."""

        @functools.wraps(function)
        def is_completed(work: Any) -> bool:
            done = function(work)
            if done and work not in self.finished:
                self.finished.add(work)
                self._waited(blocks=False)
            return done

        return is_completed


def all_but_one(n: int) -> float:
    """Return the mean over ranks: a broadcast has n - 1 receivers, and a gather n - 1 senders."""
    return (n - 1) / n


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)


def is_wait(func: Any, name: str, types: Sequence[type]) -> bool:
    if not any(one.__name__ == NOT_YET_THERE for one in types):
        return bool(name == "wait_tensor")
    alias = func._schema.arguments[0].alias_info if func._schema.arguments else None
    is_view = alias is not None and not alias.is_write
    return not is_view and (name == "wait_tensor" or "c10d" not in func.namespace)
