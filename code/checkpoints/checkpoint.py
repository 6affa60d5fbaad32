"""Checkpoints that any layout can read, through torch.distributed.checkpoint.

A checkpoint holds whole parameters under the names of the undivided model, each with Adam's two
moments, in float32 (or float64), whatever the layout that wrote it: every rank writes the slices it
has and reads the slices it needs.

The vocabulary is padded to a number of rows that depends on the layout: a checkpoint has the rows
over which the softmax is taken, and rows that a layout adds beyond them are zero and never counted.
files.py has the files, saved_model.py what makes two models one and the same.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from checkpoints.agreement import Group, from_first
from checkpoints.behind import Behind
from checkpoints.files import CheckpointError, fresh, iteration_of, publish, seal, write_json
from checkpoints.saved_model import description
from training.optimizer import Optimizer

VOCABULARY = ("word.weight", "output.weight")
Place = tuple[slice, ...]
Tell = Callable[[str | None], None]


@dataclass
class Progress:
    """How far a run has come, and what its log has not told of that yet."""

    iteration: int = 0
    consumed_samples: int = 0
    untold_steps: int = 0
    untold_skipped: int = 0
    untold_nan_iterations: int = 0
    untold_loss: float = 0.0


class Checkpoints:
    """Where a run saves, and what: weights, moments, progress."""

    def __init__(
        self,
        optimizer: Optimizer,
        wholes: dict[str, tuple[torch.Size, Place]],
        args: argparse.Namespace,
    ) -> None:
        self.optimizer, self.wholes, self.args = optimizer, wholes, args
        self.unsaved: str | None = None  # why the last one could not be written
        self.behind = Behind() if args.save and args.async_save else None

    def _parts(self, kinds: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
        return {
            f"{kind}.{name}": self._part(name, tensor)
            for kind, values in kinds.items()
            for name, tensor in values.items()
        }

    def _part(self, name: str, values: Tensor) -> Tensor:
        from checkpoints.slices import SavedSlice  # late: see there

        whole, place = self.wholes[name]
        if name in VOCABULARY:  # without the rows that are this layout's padding
            rows = self.args.softmax_rows or self.args.padded_vocab_size
            start, stop = (min(at, rows) for at in (place[0].start, place[0].stop))
            whole = torch.Size([rows, *whole[1:]])
            place, values = (slice(start, stop), *place[1:]), values[: stop - start]
        return SavedSlice.of(values, whole, place)

    def save(self, folder: Path, progress: Progress, tell: Tell) -> None:
        """`tell` hears None, or why nothing was saved; the checkpoints before stay as they are.

        With --async-save training stands still for a copy alone, and `tell` hears of it later.
        """
        target = folder / f"iter_{progress.iteration:07d}"
        if self.behind is None:
            self._write(target, lambda: self._state(progress), tell)
            return
        self.behind.wait()  # before there is a second copy
        copied, group = self._state(progress, copied=True), self.behind.group
        self.behind.begin(lambda: self._write(target, lambda: copied, tell, group))

    def finish(self) -> None:
        """Waits for what is still being written."""
        if self.behind is not None:
            self.behind.wait()

    def _state(self, progress: Progress, copied: bool = False) -> dict[str, Any]:
        kinds = self.optimizer.by_name(with_moments=True)
        if copied:  # to the host; without a GPU it is there already, and may be the model's own
            for values in kinds.values():
                for name, tensor in values.items():
                    values[name] = tensor.to("cpu", copy=True)
        scale = asdict(self.optimizer.loss_scale)
        steps = self.optimizer.steps_taken
        extra = {"progress": asdict(progress), "loss_scale": scale, "adam_steps": steps}
        return {**self._parts(kinds), **extra}

    def _write(
        self, target: Path, state: Callable[[], dict[str, Any]], tell: Tell, group: Group = None
    ) -> None:
        from checkpoints.slices import write  # late: see there

        # All in a folder that nobody reads, renamed at the end: whenever the job is killed, the
        # checkpoint before is whole.
        making = target.with_name(f"{target.name}.unfinished")
        try:
            from_first(lambda: fresh(making), group)
            from_first(lambda: write_json(making / "model.json", description(self.args)), group)
            write(state(), making, group)
            seal(making, group)
            from_first(lambda: publish(making, target), group)
        except (OSError, RuntimeError) as error:
            if dist.get_rank() == 0:
                shutil.rmtree(making, ignore_errors=True)
            self.unsaved = str(error)
        else:
            self.unsaved = None
        tell(self.unsaved)

    def load(self, source: Path, weights_only: bool) -> Progress:
        """Of a checkpoint that `last_good` has checked."""
        from checkpoints.slices import read

        scale = self.optimizer.loss_scale
        extra: dict[str, Any] = {
            "progress": asdict(Progress()),
            "loss_scale": asdict(scale),
            "adam_steps": 0,
        }
        kinds = self.optimizer.by_name(with_moments=not weights_only)
        for values in kinds.values():
            for name in VOCABULARY:
                if name in values:  # what the checkpoint does not fill is padding
                    values[name] = torch.zeros_like(values[name])
        state = {**self._parts(kinds), **extra}
        try:
            read(state, source)
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"{source} cannot be read, though its checksums are right ({error}): it was put "
                "together of several, or written by another program; move it away to take the one "
                "before"
            ) from error
        progress = Progress(**state["progress"])
        if progress.iteration != iteration_of(source):
            raise CheckpointError(
                f"{source} holds iteration {progress.iteration}: it was renamed; give it its name "
                "back, or move it away"
            )
        if not weights_only:
            self.optimizer.steps_taken = state["adam_steps"]
            scale.go_on_from(state["loss_scale"])
        self.optimizer.set_by_name(kinds)  # its tensors have been read into
        return progress
