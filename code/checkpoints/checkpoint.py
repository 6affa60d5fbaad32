"""Checkpoints that any layout can read.

A checkpoint holds whole parameters under the names of the undivided model, each with Adam's two
moments, in float32 (or float64), whatever layout wrote it. Every rank writes the slices that it has
and reads the slices that it needs.

The number of padded vocabulary rows depends on the layout. A checkpoint has the rows over which the
softmax is taken; further rows of a layout are zero and never counted. files.py handles the files,
slices.py the numbers, and saved_model.py compares models."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from operator import index
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from checkpoints.agreement import Group, from_all, from_first
from checkpoints.files import (
    CheckpointError,
    fresh,
    iteration_of,
    ours,
    publish,
    seal,
    write_json,
)
from checkpoints.saved_model import description
from checkpoints.slices import Slice, read, read_tensors, write
from process.reading import read_json
from training.optimizer import Optimizer

PROGRESS = "progress.json"
VOCABULARY = ("word.weight", "output.weight")
Place = tuple[slice, ...]
Tell = Callable[[OSError | None], None]


@dataclass
class Progress:
    """Progress of a run."""

    iteration: int = 0
    consumed_samples: int = 0


class Background:
    """Background saving (--async-save): a thread of each rank writes a copy of the tensors.

    One save runs at a time, and all ranks start the same saves.

    The threads use a process group of their own; in the default group, their messages would mix
    with the messages of the training."""

    def __init__(self) -> None:
        self.group = dist.new_group(backend="gloo")
        self.thread = ThreadPoolExecutor(1)
        self.work: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        self.work = self.thread.submit(work)

    def wait(self) -> None:
        """Wait for the current save, and raise its error."""
        if self.work is not None:
            self.work.result()


class Checkpoints:
    """Saving and loading of weights, moments and progress of a run."""

    def __init__(
        self,
        optimizer: Optimizer,
        slices: dict[str, tuple[torch.Size, Place]],
        biases: dict[str, Tensor],
        args: argparse.Namespace,
    ) -> None:
        self.optimizer, self.slices, self.args = optimizer, slices, args
        self.biases = biases  # biases of routers, which no gradient and no optimizer updates
        self.unsaved: OSError | None = None  # error of the last save, if it failed
        self.background = Background() if args.save and args.async_save else None

    def _parts(self, kinds: dict[str, dict[str, Tensor]]) -> dict[str, Slice]:
        return {
            f"{kind}.{name}": self._part(name, tensor)
            for kind, values in kinds.items()
            for name, tensor in values.items()
        }

    def _part(self, name: str, values: Tensor) -> Slice:
        if name in self.biases:
            return Slice(values, list(values.shape), [0])
        whole, place = self.slices[name]
        size, offsets = list(whole), [at.start for at in place]
        if name in VOCABULARY:  # without this layout's padding rows
            size[0] = self.args.softmax_rows or self.args.padded_vocab_size
            values = values[: max(0, size[0] - offsets[0])]
        return Slice(values, size, offsets)

    def save(self, folder: Path, progress: Progress, tell: Tell) -> None:
        """Save a checkpoint; `tell` receives None, or the error. Older checkpoints stay
        unchanged.

        With --async-save training waits only for the copy, and `tell` is called later."""
        target = folder / f"iter_{progress.iteration:07d}"
        if self.background is None:
            self._write(target, self._kinds(), self._state(progress), tell)
            return
        self.background.wait()  # so that there is never a second copy
        copied, told, group = self._kinds(copied=True), self._state(progress), self.background.group
        self.background.begin(lambda: self._write(target, copied, told, tell, group))

    def finish(self) -> None:
        """Wait for the save in progress."""
        if self.background is not None:
            self.background.wait()

    def _kinds(self, copied: bool = False) -> dict[str, dict[str, Tensor]]:
        kinds = {**self.optimizer.by_name(with_moments=True), "router": self.biases}
        if copied:  # to the host; without a GPU, `to` alone might not copy
            kinds = {
                kind: {name: tensor.to("cpu", copy=True) for name, tensor in values.items()}
                for kind, values in kinds.items()
            }
        return kinds

    def _state(self, progress: Progress) -> dict[str, Any]:
        scale, steps = asdict(self.optimizer.loss_scale), self.optimizer.steps_taken
        return {"progress": asdict(progress), "loss_scale": scale, "adam_steps": steps}

    def _write(
        self,
        target: Path,
        kinds: dict[str, dict[str, Tensor]],
        told: dict[str, Any],
        tell: Tell,
        group: Group = None,
    ) -> None:
        # Write to a temporary folder and rename it at the end: if the job is killed, the previous
        # checkpoint is still complete.
        making = target.with_name(f"{target.name}.unfinished")
        try:
            from_first(lambda: fresh(making), group)
            from_first(lambda: write_json(making / "model.json", description(self.args)), group)
            from_first(lambda: write_json(making / PROGRESS, told), group)
            write(self._parts(kinds), making, group)
            seal(making, group)
            from_first(lambda: publish(making, target), group)
        except OSError as error:  # other errors, such as a lost rank, are not the disk's fault
            if dist.get_rank() == 0:
                shutil.rmtree(making, ignore_errors=True)
            self.unsaved = error
        else:
            self.unsaved = None
        tell(self.unsaved)

    def load(self, source: Path, weights_only: bool) -> Progress:
        """Load a checkpoint that `last_good` has checked."""
        saved = from_first(lambda: ours(source, lambda: read_json(source / PROGRESS)))
        tensors = from_first(lambda: ours(source, lambda: read_tensors(source)))
        kinds = self.optimizer.by_name(with_moments=not weights_only)
        for values in kinds.values():
            for name in VOCABULARY:
                if name in values:  # rows that the checkpoint does not fill are padding
                    values[name] = torch.zeros_like(values[name])
        parts = self._parts({**kinds, "router": self.biases})
        from_all(lambda: ours(source, lambda: read(parts, source, tensors)))
        counts = ours(source, lambda: {n: index(count) for n, count in saved["progress"].items()})
        progress = ours(source, lambda: Progress(**counts))
        if progress.iteration != iteration_of(source):
            raise CheckpointError(
                f"{source} holds iteration {progress.iteration}, so somebody renamed the folder; "
                "restore its name, or move it away"
            )
        if not weights_only:
            self.optimizer.steps_taken = ours(source, lambda: index(saved["adam_steps"]))
            self.optimizer.loss_scale.resume_from(saved["loss_scale"])
        self.optimizer.set_by_name(kinds)  # the tensors now hold the values that were read
        return progress
