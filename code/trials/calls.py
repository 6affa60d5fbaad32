"""Which collectives and messages a learner's code asks for, in which order.

The functions of `torch.distributed` are replaced by ones that write the call down first: a call
that never returns, or that ends the process, is on the list too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from trials.notes import Notes

COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor",
    "all_gather_single", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor",
    "reduce_scatter_single", "all_to_all", "all_to_all_single", "barrier",
)  # fmt: skip
NOTED = ("output", "output_tensor", "tensor")
"""By these names a tensor is noted before others, as it is where it stands first."""
MESSAGES = {"send": "dst", "recv": "src", "isend": "dst", "irecv": "src"}
ROOTS = {"broadcast": ("src", 1), "reduce": ("dst", 1), "gather": ("dst", 2), "scatter": ("src", 2)}
"""What the one rank is called that has or gets everything, and its place among the arguments."""
WAITS = ("wait", "synchronize", "is_completed", "get_future")
MOST = 400
"""Calls of a case that are kept; a loop without end makes many."""


class Calls:
    """`made` since the last `begin`. Each call: its name, what it was for, how many numbers, the
    rank at the other end, and the phase of the step."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.made: list[dict[str, Any]] = []
        self.names: dict[int, str] = {}
        """Of tensors, by the address of their numbers."""
        self.phase = ""
        self.inside = False
        self.started: dict[int, int] = {}
        """The numbers of calls whose work nobody has waited for yet, by the work's id. The work
        itself is not kept: it holds on to tensors."""

    def begin(self, size: int, case: str) -> None:
        self.notes.place = {"size": size, "case": case}
        self.made.clear()
        self.names.clear()
        self.started.clear()

    def know(self, tensor: torch.Tensor, name: str) -> None:
        self.names[tensor.data_ptr()] = name

    def install(self) -> None:
        for name in (*COLLECTIVES, *MESSAGES):
            watched = self._watched(name, getattr(dist, name))
            for module in (dist, distributed_c10d):  # P2POp compares with the second
                setattr(module, name, watched)
        for name in WAITS:
            setattr(dist.Work, name, self._waiting(getattr(dist.Work, name)))

    def _waiting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A work that is asked how far it is has not been forgotten."""

        @functools.wraps(function)
        def wait(work: Any, *args: Any, **named: Any) -> Any:
            if not self.inside and (number := self.started.pop(id(work), None)) is not None:
                self.notes.write("waited", number=number)
            return function(work, *args, **named)

        return wait

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if self.inside or len(self.made) >= MOST:  # send itself calls isend
                return function(*args, **named)
            self.made.append(self._told(name, args, named))
            self.notes.write("call", **self.made[-1])
            number = len(self.made) - 1
            self.inside = True
            try:
                answer = function(*args, **named)
            finally:
                self.inside = False
            if isinstance(answer, dist.Work):
                self.started[id(answer)] = number
            return answer

        return call

    def _told(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        given = [*(named[key] for key in NOTED if key in named), *args, *named.values()]
        tensor = next((value for value in given if isinstance(value, torch.Tensor)), None)
        told: dict[str, Any] = {"call": name, "phase": self.phase}
        if tensor is not None:
            told["numbers"] = tensor.numel()
            told["bytes"] = tensor.numel() * tensor.element_size()
            told["of"] = self.names.get(tensor.data_ptr(), "") if tensor.numel() else ""
        if name in MESSAGES:
            told["peer"] = args[1] if len(args) > 1 else named.get(MESSAGES[name])
        if name in ROOTS:
            word, place = ROOTS[name]
            told["root"] = args[place] if len(args) > place else named.get(word)
        if "async_op" in named:
            told["async"] = bool(named["async_op"])
        return told
