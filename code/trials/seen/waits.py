"""Whether somebody waits for a work that was started: when, and whether it stands still meanwhile.

waited      it was waited for, or handed on to a future; `blocks` says that its rank waited
dropped     it was thrown away before
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from trials.calls import Calls

BLOCKING = ("wait", "synchronize", "result")


class Waits:
    """Of works that calls return. The work itself is not kept: it holds on to tensors."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.places: dict[int, dict[str, Any]] = {}
        """Of the calls whose works (or futures) live, by the id of these."""
        self.unfinished: dict[int, tuple[str, int]] = {}
        """Where a work was that was asked and had not come through, by its id."""

    def install(self) -> None:
        for name in BLOCKING:
            setattr(dist.Work, name, self._blocking(getattr(dist.Work, name)))
        for name in ("wait", "value"):
            setattr(torch._C.Future, name, self._blocking(getattr(torch._C.Future, name)))
        dist.Work.is_completed = self._asking(dist.Work.is_completed)  # type: ignore[method-assign]
        dist.Work.get_future = self._handing_on(dist.Work.get_future)  # type: ignore[method-assign]

    def begin(self, work: Any, number: int) -> None:
        self._know(work, {**self.calls.notes.place, "number": number})

    def _know(self, one: Any, place: dict[str, Any]) -> None:
        self.places[id(one)] = place
        weakref.finalize(one, self._gone, id(one)).atexit = False

    def _gone(self, key: int) -> None:
        place = self.places.pop(key, None)
        self.unfinished.pop(key, None)
        if place is not None and not place.get("waited"):
            self.calls.notes.write("dropped", **place)

    def _waited(self, one: Any, blocks: bool) -> None:
        place = self.places.get(id(one), {"number": None})  # as of what came from below
        if self.calls.inside.on or place.get("waited") == "blocks":
            return
        at = {name: place[name] for name in ("size", "case", "number") if name in place}
        self.note(blocks, **at)
        place["waited"] = "blocks" if blocks else "handed on"

    def note(self, blocks: bool, **at: Any) -> None:
        phase, after = self._now()
        self.calls.notes.write("waited", **at, blocks=blocks, phase=phase, after=after)

    def _now(self) -> tuple[str, int]:
        return self.calls.phase, self.calls.gradients

    def _blocking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wait(one: Any, *args: Any, **named: Any) -> Any:
            self._waited(one, blocks=True)
            return function(one, *args, **named)

        return wait

    def _asking(self, function: Callable[..., bool]) -> Callable[..., bool]:
        """Who asks until it is through, and does nothing else meanwhile, waits."""

        @functools.wraps(function)
        def is_completed(work: Any) -> bool:
            done = function(work)
            if done:
                self._waited(work, blocks=self.unfinished.get(id(work)) == self._now())
            elif not self.calls.inside.on and id(work) in self.places:
                self.unfinished[id(work)] = self._now()
            return done

        return is_completed

    def _handing_on(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def get_future(work: Any) -> Any:
            self._waited(work, blocks=False)
            future = function(work)
            if (place := self.places.get(id(work))) is not None and not self.calls.inside.on:
                self._know(future, place)
            return future

        return get_future
