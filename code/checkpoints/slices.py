"""Files of torch.distributed.checkpoint: every rank writes its slices of tensors and reads them.

Importing it takes a second and a half of every rank, since it brings DTensor and the compiler with
it. So only who saves or loads imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from checkpoints.agreement import Group

Place = tuple[slice, ...]


class SavedSlice(Tensor):
    """A rank's slice of a whole tensor, told to torch.distributed.checkpoint by its protocol.

    It asks each rank which slices it has and lets one rank write those that several have: data
    ranks all offer the same ones. Reading, it finds the slices that overlap with what a rank wants.
    """

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
        if not self.mine.numel():  # a tensor rank may have nothing but padding
            return []
        properties = TensorProperties.create_from_tensor(self.mine)
        data = TensorWriteData(chunk=self._chunk(), properties=properties, size=self.whole)
        return [WriteItem(MetadataIndex(name, self.offsets), WriteItemType.SHARD, tensor_data=data)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [self._chunk()] if self.mine.numel() else []

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self.mine


def write(state: dict[str, Any], folder: Path, group: Group = None) -> None:
    """All ranks call this, and all raise where one could not write."""
    with _first_cause():
        writer = dcp.FileSystemWriter(folder, thread_count=1)
        dcp.save(state, storage_writer=writer, process_group=group)


def read(state: dict[str, Any], folder: Path) -> None:
    """Into the tensors of `state`; other values are replaced."""
    reader = dcp.FileSystemReader(folder)
    try:
        reader.read_metadata()
    except Exception as error:  # else PyTorch would print it, and look for files of each rank
        raise RuntimeError(f".metadata: {str(error) or type(error).__name__}") from error
    with _first_cause():
        dcp.load(state, storage_reader=reader)


@contextmanager
def _first_cause() -> Iterator[None]:
    """PyTorch raises a collection of errors by rank, which is no `Exception`: nobody expects it."""
    try:
        yield
    except dcp.CheckpointException as error:
        rank, (cause, _) = sorted(error.failures.items())[0]
        said = str(cause) or type(cause).__name__
        if "unexpected pos" in said:  # PyTorch's archive counts its bytes, and does not say why
            said = f"a file could not be written whole, as on a full disk ({said})"
        raise RuntimeError(f"rank {rank}: {said}") from error
