"""Matrix that four ranks save and two read: by hand, and with `torch.distributed.checkpoint`.

    torchrun --nproc-per-node 4 code/twins/checkpoint.py

Both ways write slices with their positions in the whole, so that any other division can find its
numbers. By hand, each rank states its slice's position; in PyTorch, the DTensor knows it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import checkpoint as torch_checkpoint
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from checkpoints.slices import Slice, read, read_tensors, write

NAME = "weight.word.weight"  # a name that every checkpoint of the program has
WHOLE = torch.arange(24 * 16, dtype=torch.float32).view(24, 16)


def by_hand(folder: Path) -> Tensor:
    """Save rows on each rank; read columns on the first half of the ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    rows = WHOLE.chunk(ranks)[rank].contiguous()
    write({NAME: Slice(rows, list(WHOLE.shape), [rank * rows.shape[0], 0])}, folder)
    columns = torch.empty(WHOLE.shape[0], WHOLE.shape[1] // (ranks // 2))
    if rank < ranks // 2:
        mine = Slice(columns, list(WHOLE.shape), [0, rank * columns.shape[1]])
        read({NAME: mine}, folder, read_tensors(folder))
    return columns


def with_torch(folder: Path) -> Tensor:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everyone, half = DeviceMesh("cpu", range(ranks)), DeviceMesh("cpu", range(ranks // 2))
    rows = distribute_tensor(WHOLE, everyone, [Shard(0)])
    torch_checkpoint.save({NAME: rows}, checkpoint_id=folder)
    if rank >= ranks // 2:
        torch_checkpoint.load({}, checkpoint_id=folder)  # all ranks take part
        return torch.empty(0)
    columns = distribute_tensor(torch.zeros_like(WHOLE), half, [Shard(1)])
    torch_checkpoint.load({NAME: columns}, checkpoint_id=folder)
    return columns.to_local()


def both_are_right(folder: Path) -> bool:
    """Return True if this rank reads its columns in both ways, or reads nothing."""
    rank, half = dist.get_rank(), dist.get_world_size() // 2
    for name in ("hand", "torch"):
        (folder / name).mkdir(exist_ok=True)
    dist.barrier()
    found = by_hand(folder / "hand"), with_torch(folder / "torch")
    return rank >= half or all(torch.equal(one, WHOLE.chunk(half, 1)[rank]) for one in found)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared)
    right = both_are_right(Path(str(shared[0])))
    print(f"rank {dist.get_rank()}: {'both are right' if right else 'they differ'}")
    dist.destroy_process_group()
