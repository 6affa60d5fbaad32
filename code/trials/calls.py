"""Which collectives and messages a learner's code asks for, in which order.

The functions of `torch.distributed` are replaced by ones that write the call down first: a call
that never returns, or that ends the process, is on the list too. `seen/below.py` sees the others.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from trials.notes import Notes
from trials.seen.waits import Waits

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
MOST = 400
"""Calls of a case that are kept; a loop without end makes many."""


class Inside(threading.local):
    """Whether this thread is in a call that was written down."""

    on = False


class Calls:
    """`made` since the last `begin`. Each call: its name, what it was for, how many numbers, the
    rank at the other end, the phase of the step, and how many gradients had come before it."""

    def __init__(self, notes: Notes, folder: Path) -> None:
        """Of the folder are the learner's own lines."""
        self.notes, self.folder = notes, folder
        self.made: list[dict[str, Any]] = []
        self.bytes: Counter[str] = Counter()
        """Of all calls, by their names."""
        self.times: Counter[str] = Counter()
        self.names: dict[int, str] = {}
        """Of gradients, by the address of their numbers."""
        self.weights: dict[int, str] = {}
        """Likewise of what is no gradient."""
        self.gradients = 0
        self.phase = ""
        self.inside = Inside()
        self.main = threading.get_ident()
        self.waits = Waits(self)

    def begin(self, size: int, case: str) -> None:
        self.notes.place = {"size": size, "case": case}
        for one in (self.made, self.bytes, self.times, self.names, self.weights):
            one.clear()
        self.gradients = 0

    def know(self, gradient: torch.Tensor, name: str) -> None:
        self.names[gradient.data_ptr()] = name
        self.gradients += 1

    def install(self) -> None:
        for name in (*COLLECTIVES, *MESSAGES):
            watched = self._watched(name, getattr(dist, name))
            for module in (dist, distributed_c10d):  # P2POp compares with the second
                setattr(module, name, watched)
        self.waits.install()

    def note(self, told: dict[str, Any]) -> int:
        """Its number."""
        self.bytes[told["call"]] += told.get("bytes", 0)
        self.times[told["call"]] += 1
        if len(self.made) < MOST:
            told |= {"phase": self.phase, "after": self.gradients}
            if threading.get_ident() != self.main:
                told["thread"] = True
            elif not self._is_in_own_lines():
                told["own"] = False
            self.made.append(told)
            self.notes.write("call", **told)
            return len(self.made) - 1
        return MOST

    def _is_in_own_lines(self) -> bool:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(self.folder)):
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if self.inside.on:  # send itself calls isend
                return function(*args, **named)
            number = self.note(self._told(name, args, named, signature))
            self.inside.on = True
            try:
                answer = function(*args, **named)
            finally:
                self.inside.on = False
            if isinstance(answer, dist.Work) and number < MOST:
                self.waits.begin(answer, number)
            return answer

        return call

    def _told(
        self, name: str, args: tuple[Any, ...], named: dict[str, Any], signature: inspect.Signature
    ) -> dict[str, Any]:
        given = [*(named[key] for key in NOTED if key in named), *args, *named.values()]
        told = {"call": name, **self.told_of(given)}
        if name in MESSAGES:
            other = MESSAGES[name]
            peer = args[1] if len(args) > 1 else named.get(other, named.get(f"group_{other}"))
            told |= {"peer": peer} if peer is not None else {}
            told |= {"tag": named["tag"]} if "tag" in named else {}
        if name in ROOTS:
            word, place = ROOTS[name]
            told["root"] = args[place] if len(args) > place else named.get(word)
        with contextlib.suppress(TypeError):  # which the function itself will raise
            if "async_op" in signature.parameters:
                bound = signature.bind(*args, **named).arguments
                told["async"] = bool(bound.get("async_op"))
        return told

    def told_of(self, given: Sequence[Any]) -> dict[str, Any]:
        """Of the first tensor among the arguments, or of the first list of tensors."""
        for one in given:
            if isinstance(one, torch.Tensor):
                address = one.data_ptr() if one.numel() else 0
                told = {**numbers_of([one]), "of": self.names.get(address, "")}
                return told | (
                    {"weights": self.weights[address]} if address in self.weights else {}
                )
        for one in given:
            if isinstance(one, list) and one and all(isinstance(t, torch.Tensor) for t in one):
                return numbers_of(one)
        return {}


def numbers_of(tensors: Sequence[torch.Tensor]) -> dict[str, int]:
    return {
        "numbers": sum(one.numel() for one in tensors),
        "bytes": sum(one.numel() * one.element_size() for one in tensors),
    }
