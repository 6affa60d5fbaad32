"""Record of a learner's training program on one rank, while it runs.

The program's text does not count, only its use of torch. So a correct program passes in any form,
and a wrong program is judged by its results.

    group      the process group exists
    device     the number of the device that this rank asked for
    wrapped    a model in DistributedDataParallel
    loader     a DataLoader, and its batch size
    epoch      one pass through a loader: order of samples, losses, weights at the end
    gradients  of the first step, this rank's own and the optimizer's
    line       printed text
    saved, loaded      a file, and the number of this rank's earlier collectives
    followed   the program reached its end

The validation losses of the second and third epoch are shifted: rank 0's own loss falls in every
epoch, while the mean over all ranks is lowest in the second. So the saved model shows which of the
two losses the program uses."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import BatchSampler, DataLoader

from summary import device
from summary.model import Summariser
from trials.calls import NAMES, tensors_in
from trials.program.model_numbers import (
    first_numbers,
    norm,
    norm_in_file,
    own_gradients,
    tables,
)
from trials.watchdog import Notes

# Methods of a group after which a rank knows something of others; and the other methods.
MEETINGS = (
    "allreduce", "allreduce_coalesced", "broadcast", "allgather", "_allgather_base",
    "allgather_coalesced", "allgather_into_tensor_coalesced", "scatter", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base",
    "barrier", "monitored_barrier", "recv",
)  # fmt: skip
OTHERS = ("send", "reduce", "gather")
# By how much a validation loss is moved in an epoch: rank 0's own, and the mean over all.
MOVED = {2: (-3.0, 0.0), 3: (-4.0, 1.0)}

MOST_LINES, LONGEST_LINE = 60, 200  # of what is printed


class Enough(BaseException):
    """Exception: the run may end, because everything has been observed."""


class Lines(io.TextIOBase):
    """Output stream that passes each line to `note`, up to a limit."""

    def __init__(self, note: Callable[..., object], under: Any) -> None:
        self.note, self.under, self.begun, self.count = note, under, "", 0
        self.are_shown = True

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            self.count += 1
            if self.count <= MOST_LINES:
                self.note("line", text=line[:LONGEST_LINE])
        self.begun = self.begun[-LONGEST_LINE:]
        return int(self.under.write(text)) if self.are_shown else len(text)

    def flush(self) -> None:
        self.under.flush()

    def fileno(self) -> int:
        return int(self.under.fileno())


class Watched:
    """Observer of a program; call `install` before the program imports names from modules."""

    def __init__(self, notes: Notes, moved: Callable[[], object]) -> None:
        """Create the observer. It calls `moved` to report that this rank is still working."""
        self.notes, self.moved = notes, moved
        self.lines = Lines(self.write, sys.stdout)
        self.begin(None)

    def begin(self, last_epoch: int | None) -> None:
        """Prepare for a run of the program: to its end, or silently for its first epochs."""
        self.last_epoch = last_epoch
        self.lines.are_shown = last_epoch is None
        self.read: dict[int, Any] = {}
        """By the batch sampler of a loader: the data that it reads."""
        self.epoch: dict[str, Any] | None = None
        self.trained = self.forwards = self.met = self.lines.count = 0
        self.rate = 0.0
        """The largest learning rate of a step."""
        self.optimizer: Optimizer | None = None
        self.model: torch.nn.Module | None = None
        self.own: list[float] = []  # this rank's gradients before the first step
        self.has_stepped = False

    def write(self, event: str, **fields: Any) -> None:
        if os.getpid() == self.notes.owner:  # and not in a worker of a loader
            self.moved()
            self.notes.write(event, **fields)

    def install(self) -> None:
        self._after(dist, "init_process_group", self._group)
        self._after(device, "device_of", lambda _, number: self.write("device", number=number))
        self._after(DistributedDataParallel, "__init__", lambda *_, **__: self.write("wrapped"))
        self._after(DistributedDataParallel, "forward", self._forward)
        self._after(DataLoader, "__init__", self._loader)
        self._after(Summariser, "forward", self._called)
        for name in (*MEETINGS, *OTHERS):
            if hasattr(dist.ProcessGroup, name):
                self._before(dist.ProcessGroup, name, functools.partial(self._call, name))
        functional = torch.nn.functional
        functional.cross_entropy = self._loss_of(functional.cross_entropy)  # type: ignore[assignment]
        self._before(torch, "save", self._saved)
        torch.load = self._loading(torch.load)
        BatchSampler.__iter__ = self._batches(BatchSampler.__iter__)  # type: ignore[method-assign]
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._step)
        sys.stdout = self.lines  # type: ignore[assignment]

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
        self.write("group", world=dist.get_world_size())

    def _forward(self, *_: Any, **__: Any) -> None:
        self.forwards += 1

    def _loader(self, _: None, loader: Any, *__: Any, **___: Any) -> None:
        self.read[id(loader.batch_sampler)] = loader.dataset
        self.write("loader", part=part_of(loader.dataset), batch=loader.batch_size)

    def _call(self, name: str, _: Any, *args: Any, **__: Any) -> None:
        self.met += name in MEETINGS
        plain = name.strip("_").removesuffix("_coalesced")
        numbers = sum(one.numel() for one in tensors_in(args[:1]))
        peer = {"peer": args[1]} if name in ("send", "recv") else {}
        self.write("call", call=NAMES.get(plain, plain), numbers=numbers, **peer)

    def _called(self, _: torch.Tensor, model: torch.nn.Module, *__: Any, **___: Any) -> None:
        self.model = model
        if self.epoch is not None and "tested" not in self.epoch:
            self.epoch["tested"] = norm(model.parameters())

    def _loss_of(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @functools.wraps(original)
        def loss_of(*args: Any, **named: Any) -> torch.Tensor:
            loss = original(*args, **named)
            if self.epoch is None or loss.dim():
                return loss
            if self.epoch["part"] == "validation":
                loss = loss + loss_shift(self.trained)
            self.epoch["losses"].append(float(loss.detach()))
            if loss.requires_grad and self.model is not None and not self.has_stepped:
                self.own = self.own or own_gradients(loss, self.model)
            return loss

        return loss_of

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.rate = max(self.rate, *(float(one.get("lr", 0)) for one in optimizer.param_groups))
        if self.model is not None and not self.has_stepped:
            used = first_numbers(weight.grad for weight in self.model.parameters())
            self.write("gradients", own=self.own, used=used)
            self.has_stepped = True

    def _step(self, optimizer: Optimizer, *_: Any) -> None:
        self.optimizer = optimizer
        self.moved()

    def _batches(self, original: Callable[..., Iterator[list[int]]]) -> Any:
        def batches(sampler: BatchSampler) -> Iterator[list[int]]:
            self.finish()
            self.forwards = 0
            data = self.read.get(id(sampler))
            mine: dict[str, Any] = {"part": part_of(data), "order": [], "losses": []}
            self.trained += mine["part"] == "train"
            if self.last_epoch is not None and self.trained > self.last_epoch:
                raise Enough
            self.epoch = mine
            for batch in original(sampler):
                self.moved()
                mine["order"] += numbers_in_whole(data, batch)
                yield batch

        return batches

    def finish(self) -> None:
        """Write the epoch, whose last loss is known only when the next activity begins."""
        if self.epoch is not None:
            weights = None if self.optimizer is None else norm(weights_of(self.optimizer))
            told = {"weights": weights, "wrapped": self.forwards, "met": self.met}
            told["rate"] = self.rate
            self.write("epoch", **self.epoch, **told)
            self.epoch = None

    def _saved(self, what: Any, file: Any = "", *_: Any, **__: Any) -> None:
        if isinstance(file, io.BytesIO):  # an object that is sent
            return
        keys = [str(key) for table in tables(what) for key in table]
        weights = norm_in_file(what, self.model) if self.model is not None else None
        told = {"file": name_of(file), "keys": keys[:60], "what": type(what).__name__}
        self.write("saved", **told, weights=weights, calls=self.met)

    def _loading(self, original: Callable[..., Any]) -> Any:
        """Wrap loading; half-written files cause errors of many kinds, so only failures count."""

        @functools.wraps(original)
        def load(file: Any = "", *args: Any, **named: Any) -> Any:
            if isinstance(file, io.BytesIO):
                return original(file, *args, **named)
            self.write("loaded", calls=self.met, file=name_of(file))
            try:
                return original(file, *args, **named)
            except Exception:
                self.write("not loaded")
                raise

        return load


def loss_shift(epoch: int) -> float:
    first, mean = MOVED.get(epoch, (0.0, 0.0))
    size = dist.get_world_size() if dist.is_initialized() else 1
    if size == 1 or dist.get_rank() == 0:
        return first
    return (size * mean - first) / (size - 1)


def part_of(data: Any) -> str:
    while not hasattr(data, "split") and hasattr(data, "dataset"):  # a Subset
        data = data.dataset
    return str(getattr(data, "split", ""))


def numbers_in_whole(data: Any, numbers: list[int]) -> list[int]:
    """Return sample numbers in the whole data; `data` may be a Subset of each rank."""
    while hasattr(data, "indices"):
        data, numbers = data.dataset, [int(data.indices[number]) for number in numbers]
    return numbers


def weights_of(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def name_of(file: Any) -> str:
    return Path(file).name if isinstance(file, str | os.PathLike) else ""


@contextlib.contextmanager
def fewer_ranks(size: int, store: dist.Store) -> Iterator[None]:
    """Set the environment to `size` ranks, with a separate store and a temporary folder for what
    they save."""
    make = dist.init_process_group
    rank = int(os.environ["RANK"])

    def meet(
        backend: str | None = None, init_method: str | None = None,
        timeout: timedelta | None = None, world_size: int = size, rank: int = rank, **more: Any,
    ) -> None:  # fmt: skip
        more |= {"store": store, "timeout": timeout}
        make(backend, world_size=world_size, rank=rank, **more)

    setattr(dist, make.__name__, meet)
    os.environ["WORLD_SIZE"] = str(size)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COURSE_RUN_DIR"] = folder
        yield
