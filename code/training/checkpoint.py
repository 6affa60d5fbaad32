"""Checkpoints that any layout can read, through torch.distributed.checkpoint.

A checkpoint holds whole parameters under the names of the undivided model, each with Adam's two
moments, in float32 (or float64), whatever the layout that wrote it: every rank writes the slices it
has and reads the slices it needs.

    <folder>/iter_0000020/                      complete, or not there: renamed when all is written
    <folder>/latest_checkpointed_iteration.txt  which one is the newest
"""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from training.optimizer import Optimizer

TRACKER = "latest_checkpointed_iteration.txt"
Place = tuple[slice, ...]


@dataclass
class Progress:
    """How far a run has come."""

    iteration: int = 0
    consumed_samples: int = 0


class SavedSlice(Tensor):
    """A rank's slice of a whole tensor, told to torch.distributed.checkpoint by its protocol."""

    whole: torch.Size
    offsets: torch.Size
    mine: Tensor

    @staticmethod
    def of(values: Tensor, whole: torch.Size, place: Place) -> SavedSlice:
        part = Tensor._make_subclass(SavedSlice, values)
        part.mine, part.whole = values, whole
        part.offsets = torch.Size([at.start for at in place])
        return part

    def size(self, *dimension: int) -> Any:  # type: ignore[override]  # of the whole
        return self.whole[dimension[0]] if dimension else self.whole

    def _chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(offsets=self.offsets, sizes=self.mine.shape)

    def __create_write_items__(self, name: str, _: object) -> list[WriteItem]:
        properties = TensorProperties.create_from_tensor(self.mine)
        data = TensorWriteData(chunk=self._chunk(), properties=properties, size=self.whole)
        return [WriteItem(MetadataIndex(name, self.offsets), WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [self._chunk()]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.mine


class Checkpoints:
    """Where a run saves, and what: weights, moments, progress."""

    def __init__(self, optimizer: Optimizer, wholes: dict[str, tuple[torch.Size, Place]]) -> None:
        self.optimizer, self.wholes = optimizer, wholes

    def _parts(self, with_moments: bool) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for kind, values in self.optimizer.by_name(with_moments).items():
            for name, tensor in values.items():
                found[f"{kind}.{name}"] = SavedSlice.of(tensor, *self.wholes[name])
        return found

    def save(self, folder: Path, progress: Progress) -> str | None:
        """Returns None, or why nothing was saved; the checkpoints before stay as they are."""
        target = folder / f"iter_{progress.iteration:07d}"
        making = folder / f"{target.name}.unfinished"
        scale = asdict(self.optimizer.loss_scale)
        steps = self.optimizer.steps_taken
        extra = {"progress": asdict(progress), "loss_scale": scale, "adam_steps": steps}
        try:
            _on_first_rank(lambda: _fresh(making))
            writer = dcp.FileSystemWriter(making, thread_count=1)
            dcp.save({**self._parts(with_moments=True), **extra}, storage_writer=writer)
            _on_first_rank(lambda: _publish(making, target))
        except (dcp.CheckpointException, OSError, RuntimeError) as error:
            if dist.get_rank() == 0:
                shutil.rmtree(making, ignore_errors=True)
            return _reason(error)
        return None

    def load(self, folder: Path, weights_only: bool) -> Progress | None:
        """The newest complete checkpoint, or None where there is none."""
        source = _agreed(lambda: newest(folder))
        if source is None:
            return None
        scale = self.optimizer.loss_scale
        extra: dict[str, Any] = {
            "progress": asdict(Progress()),
            "loss_scale": asdict(scale),
            "adam_steps": 0,
        }
        state = {**self._parts(with_moments=not weights_only), **extra}
        dcp.load(state, storage_reader=dcp.FileSystemReader(source))
        if not weights_only:
            self.optimizer.steps_taken = state["adam_steps"]
            for name, value in state["loss_scale"].items():
                setattr(scale, name, value)
        kinds: dict[str, dict[str, Tensor]] = {}
        for key, part in state.items():
            if isinstance(part, SavedSlice):
                kind, name = key.split(".", 1)
                kinds.setdefault(kind, {})[name] = part.mine
        self.optimizer.set_by_name(kinds)
        return Progress(**state["progress"])


def newest(folder: Path) -> Path | None:
    """What the tracker names, else the last one that is complete."""
    tracker = folder / TRACKER
    named = tracker.read_text().strip() if tracker.is_file() else ""
    if named.isdigit() and _complete(folder / f"iter_{int(named):07d}"):
        return folder / f"iter_{int(named):07d}"
    found = [path for path in folder.glob("iter_*") if re.fullmatch(r"iter_\d+", path.name)]
    return max((path for path in found if _complete(path)), default=None)


def _complete(path: Path) -> bool:
    return (path / ".metadata").is_file()


def _fresh(making: Path) -> None:
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)


def _publish(making: Path, target: Path) -> None:
    replaced = target.with_name(f"{target.name}.replaced")
    if target.exists():  # moved away whole: what is deleted bit by bit could be taken for good
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    making.rename(target)
    tracker = target.parent / f"{TRACKER}.new"
    tracker.write_text(f"{int(target.name[5:])}\n")
    tracker.replace(target.parent / TRACKER)
    shutil.rmtree(replaced, ignore_errors=True)


def _on_first_rank(action: Any) -> None:
    """Runs something once; its error is every rank's error."""
    error = _agreed(lambda: _error_of(action))
    if error is not None:
        raise error


def _error_of(action: Any) -> OSError | None:
    try:
        action()
    except OSError as error:
        return error
    return None


def _agreed(question: Any) -> Any:
    """What the first rank answers."""
    answer = [question() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]


def _reason(error: BaseException) -> str:
    """The cause inside torch.distributed.checkpoint's collection of errors by rank."""
    if isinstance(error, dcp.CheckpointException):
        rank, (cause, _) = sorted(error.failures.items())[0]
        return f"rank {rank}: {cause}"
    return str(error)
