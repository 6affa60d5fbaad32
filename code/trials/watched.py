"""What a training program of the learner's does on one rank, written down while it runs.

Its text is not looked at: what it makes of torch is. So a right program passes in any form, and a
wrong one is told by what came of it.

    group      the process group is there
    device     the number of the device that this rank asked for
    wrapped    a model in DistributedDataParallel
    sampler    a DistributedSampler, over which part of the data
    loader     a DataLoader, and its batch
    epoch      one way through a loader: samples in their order, losses, weights at the end
    line       what was printed
    saved, loaded      a file, and how many collectives this rank had called before
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from summary import device
from trials.calls import Calls
from trials.notes import Notes

MOST_LINES, LONGEST_LINE = 60, 200


class Watched:
    """`install` before the program is loaded: it may take names out of modules."""

    def __init__(self, notes: Notes, calls: Calls, moved: Callable[[], object]) -> None:
        """`moved` is told that this rank is still at work."""
        self.notes, self.calls, self.moved = notes, calls, moved
        self.read: dict[int, Any] = {}
        """By the batch sampler of a loader: the data that it reads."""
        self.epoch: dict[str, Any] | None = None
        self.forwards = 0
        self.optimizer: Optimizer | None = None

    def write(self, event: str, **fields: Any) -> None:
        self.moved()
        self.notes.write(event, **fields)

    def install(self) -> None:
        self._after(dist, "init_process_group", self._group)
        self._after(device, "device_of", lambda _, number: self.write("device", number=number))
        self._after(DistributedDataParallel, "__init__", lambda *_, **__: self.write("wrapped"))
        self._after(DistributedDataParallel, "forward", self._forward)
        self._after(DistributedSampler, "__init__", self._sampler)
        self._after(DataLoader, "__init__", self._loader)
        self._after(torch.nn.functional, "cross_entropy", self._loss)
        self._before(torch, "save", self._saved)
        torch.load = self._loading(torch.load)
        BatchSampler.__iter__ = self._batches(BatchSampler.__iter__)  # type: ignore[method-assign]
        register_optimizer_step_post_hook(self._step)
        sys.stdout = Lines(self, sys.stdout)  # type: ignore[assignment]

    def _after(self, place: Any, name: str, told: Callable[..., object]) -> None:
        original = getattr(place, name)

        @functools.wraps(original)
        def call(*args: Any, **named: Any) -> Any:
            result = original(*args, **named)
            told(result, *args, **named)
            return result

        setattr(place, name, call)

    def _before(self, place: Any, name: str, told: Callable[..., object]) -> None:
        original = getattr(place, name)

        @functools.wraps(original)
        def call(*args: Any, **named: Any) -> Any:
            told(*args, **named)
            return original(*args, **named)

        setattr(place, name, call)

    def _group(self, *_: Any, **__: Any) -> None:
        self.write("group", world=dist.get_world_size(), of_rank=dist.get_rank())

    def _forward(self, *_: Any, **__: Any) -> None:
        self.forwards += 1

    def _sampler(self, _: None, sampler: Any, *__: Any, **___: Any) -> None:
        part, replicas = part_of(sampler.dataset), sampler.num_replicas
        self.write("sampler", part=part, replicas=replicas, of_rank=sampler.rank)

    def _loader(self, _: None, loader: Any, *__: Any, **___: Any) -> None:
        sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
        self.read[id(loader.batch_sampler)] = loader.dataset
        part, kind = part_of(loader.dataset), type(sampler).__name__
        self.write("loader", part=part, batch=loader.batch_size, sampler=kind)

    def _loss(self, loss: torch.Tensor, *_: Any, **__: Any) -> None:
        if self.epoch is not None and loss.dim() == 0:
            self.epoch["losses"].append(float(loss.detach()))

    def _step(self, optimizer: Optimizer, *_: Any) -> None:
        self.optimizer = optimizer
        self.moved()

    def _batches(self, original: Callable[..., Iterator[list[int]]]) -> Any:
        def batches(sampler: BatchSampler) -> Iterator[list[int]]:
            self.finish()
            self.forwards = 0
            data = self.read.get(id(sampler))
            mine: dict[str, Any] = {"part": part_of(data), "order": [], "losses": []}
            self.epoch = mine
            for batch in original(sampler):
                self.moved()
                mine["order"] += numbers_in_whole(data, batch)
                yield batch

        return batches

    def finish(self) -> None:
        """The losses of the last batch are known only when the next thing begins."""
        if self.epoch is not None:
            weights = None if self.optimizer is None else norm(self.optimizer)
            self.write("epoch", **self.epoch, weights=weights, wrapped=self.forwards)
            self.epoch = None

    def _saved(self, what: Any, *_: Any, **__: Any) -> None:
        keys = [str(key) for key in what] if isinstance(what, dict) else []
        for value in what.values() if isinstance(what, dict) else ():
            if isinstance(value, dict):  # {"model": model.state_dict(), "epoch": 3}
                keys += [str(key) for key in value]
        kind = type(what).__name__
        self.write("saved", keys=keys[:60], what=kind, calls=len(self.calls.made))

    def _loading(self, original: Callable[..., Any]) -> Any:
        """A half-written file leads to errors of many kinds; noted is that it was not read."""

        @functools.wraps(original)
        def load(*args: Any, **named: Any) -> Any:
            self.write("loaded", calls=len(self.calls.made))
            try:
                return original(*args, **named)
            except Exception:
                self.write("not loaded")
                raise

        return load


def part_of(data: Any) -> str:
    while not hasattr(data, "split") and hasattr(data, "dataset"):  # a Subset
        data = data.dataset
    return str(getattr(data, "split", ""))


def numbers_in_whole(data: Any, numbers: list[int]) -> list[int]:
    """Who deals by hand may do it with a Subset for each rank."""
    while hasattr(data, "indices"):
        data, numbers = data.dataset, [int(data.indices[number]) for number in numbers]
    return numbers


def norm(optimizer: Optimizer) -> float:
    """Of all weights: two ranks that agree in it hold the same model."""
    groups = optimizer.param_groups
    squares = [p.detach().double().square().sum() for group in groups for p in group["params"]]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


class Lines(io.TextIOBase):
    """Standard output that remembers whole lines."""

    def __init__(self, watched: Watched, under: Any) -> None:
        self.watched, self.under, self.begun, self.count = watched, under, "", 0

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            self.count += 1
            if self.count <= MOST_LINES:
                self.watched.write("line", text=line[:LONGEST_LINE])
        self.begun = self.begun[-LONGEST_LINE:]
        return int(self.under.write(text))

    def flush(self) -> None:
        self.under.flush()

    def fileno(self) -> int:
        return int(self.under.fileno())
