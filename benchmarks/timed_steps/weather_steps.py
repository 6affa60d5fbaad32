"""Batches and steps of train_vit.py, and of a plain script, on a rank of weather_loop.py."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import code_on_path  # noqa: F401
import h5py
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

Step = Callable[[], float]
# Loops that this rank has already built; a call runs one step, and returns its loss.
KEPT: dict[str, Step] = {}


class PlainPairs(Dataset[tuple[Tensor, Tensor]]):
    """Pairs of states six hours apart, scaled, from the single file of a folder."""

    def __init__(self, folder: Path) -> None:
        [self.path] = sorted((folder / "train").glob("*.h5"))
        with h5py.File(self.path) as file:
            self.count = len(file["fields"]) - 1
        stats = (np.load(folder / f"stats/global_{name}.npy") for name in ("means", "stds"))
        self.means, self.stds = (values.reshape(-1, 1, 1).astype("f4") for values in stats)
        self.file: Any = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        if self.file is None:
            self.file = h5py.File(self.path)
        now, later = (self.file["fields"][number + step] for step in (0, 1))
        return tuple(torch.from_numpy((one - self.means) / self.stds) for one in (now, later))


class PlainViT(nn.Module):
    """Weather model from PyTorch's own layers, for the whole planet."""

    def __init__(self, args: argparse.Namespace, height: int, width: int, fields: int) -> None:
        super().__init__()
        self.patch, self.adds = args.patch_size, args.forecast == "change"
        self.tall, self.wide = height // self.patch, width // self.patch
        inside, embed = fields * self.patch**2, args.embed_dim
        self.embed, self.head = nn.Linear(inside, embed), nn.Linear(embed, inside)
        self.position = nn.Parameter(0.02 * torch.randn(self.tall * self.wide, embed))
        layer = nn.TransformerEncoderLayer(
            embed, args.num_heads, args.mlp_ratio * embed, 0.0, "gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(
            layer, args.depth, nn.LayerNorm(embed), enable_nested_tensor=False
        )

    def forward(self, now: Tensor) -> Tensor:
        batch, fields = now.shape[:2]
        cut = (self.tall, self.patch, self.wide, self.patch)
        patches = now.view(batch, fields, *cut).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = self.head(self.layers(self.embed(patches) + self.position))
        x = x.view(batch, self.tall, self.wide, fields, self.patch, self.patch)
        x = x.permute(0, 3, 1, 4, 2, 5).reshape(now.shape)
        return now + x if self.adds else x


def plain_loop(argv: list[str]) -> Step:
    from weather.configuration import parse

    ranks = dist.get_world_size()
    args = parse(argv, ranks)
    pairs = PlainPairs(Path(args.data))
    sampler: Any = DistributedSampler(pairs, seed=args.seed, drop_last=True)
    loader = DataLoader(
        pairs, args.global_batch_size // ranks, sampler=sampler, drop_last=True,
    )  # fmt: skip
    torch.manual_seed(args.seed)
    now, _ = pairs[0]
    model: nn.Module = PlainViT(args, now.shape[1], now.shape[2], len(now))
    if ranks > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.95))

    def batches() -> Iterator[list[Tensor]]:
        epoch = 0
        while True:
            sampler.set_epoch(epoch)
            yield from loader
            epoch += 1

    following = batches()

    def step() -> float:
        now, later = next(following)
        optimizer.zero_grad()
        error = (model(now) - later).flatten(1).norm(dim=1)
        loss = (error / later.flatten(1).norm(dim=1)).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def program_loop(argv: list[str]) -> Step:
    from train_vit import build, train_step
    from weather.configuration import parse

    learning = build(parse(argv, dist.get_world_size()), torch.device("cpu"))

    def batches() -> Iterator[Any]:
        epoch = 0
        while True:
            epoch += 1
            yield from learning.train(epoch)

    following = batches()
    return lambda: train_step(learning, next(following)).item()


def seconds_per_step(argv: list[str], plain: bool, keeps: bool, steps: int) -> list[float]:
    """Return wall-clock time, processor time and the last loss. With `keeps` the C library keeps
    freed memory, like the program's."""
    from process.device import keep_memory

    if "loop" not in KEPT:
        if keeps:
            keep_memory()
            torch.set_flush_denormal(True)
        KEPT["loop"] = (plain_loop if plain else program_loop)(argv)
        KEPT["loop"]()
    dist.barrier()
    began = time.perf_counter(), time.process_time()
    losses = [KEPT["loop"]() for _ in range(steps)]
    clock_s, processor_s = time.perf_counter() - began[0], time.process_time() - began[1]
    return [clock_s / steps, processor_s / steps, losses[-1]]
