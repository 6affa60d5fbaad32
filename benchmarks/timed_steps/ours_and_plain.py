"""Steps of the training program and of the plain model on a rank of engine.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import code_on_path  # noqa: F401
import numpy as np
import torch
import torch.distributed as dist
from plain_gpt import PlainGPT, Shape

MICRO_BATCH, MICRO_BATCHES = 2, 8


class Times(NamedTuple):
    """Seconds per step: wall-clock and processor time."""

    clock: float
    processor: float


def flags_of(shape: Shape, micro_batches: int = MICRO_BATCHES) -> list[str]:
    text = (
        f"--mock-data --vocab-size {shape.vocabulary} --num-layers {shape.layers} "
        f"--hidden-size {shape.hidden} --num-attention-heads {shape.heads} "
        f"--seq-length {shape.length} --micro-batch-size {MICRO_BATCH} "
        f"--global-batch-size {MICRO_BATCH * micro_batches} --train-iters 1000 --lr 1e-4"
    )
    return text.split()


KEPT: dict[str, Any] = {}  # trainings that this rank has already built


def program_step(name: str, flags: list[str], steps: int) -> Times:
    """Return the seconds of some steps of the program on this rank."""
    from checkpoints.checkpoint import Progress
    from flags.arguments import parse_arguments
    from parallel.layout import make_layout
    from parallel.layout_checks import grid_from
    from pretrain_gpt import build, prepare, train_step
    from process.device import keep_memory

    if name not in KEPT:
        keep_memory()
        args = parse_arguments(flags)
        grid = grid_from(args, dist.get_world_size())
        prepare(args, grid)
        layout = make_layout(grid, dist.get_rank())
        KEPT[name] = (build(args, layout, torch.device("cpu")), Progress())
        train_step(*KEPT[name])
    training, progress = KEPT[name]
    return timed(lambda: train_step(training, progress), steps)


def plain_step(shape: Shape, micro_batches: int, steps: int, tuned: bool = False) -> Times:
    """Return the seconds of the plain model, with DDP if there are several ranks."""
    from dataset.samples import RandomSamples
    from process.device import keep_memory

    name = f"plain {shape}"
    if name not in KEPT:
        if tuned:
            keep_memory()
        torch.manual_seed(1)
        model = PlainGPT(shape)
        adam = torch.optim.AdamW(model.groups(0.01), lr=1e-4, fused=True)
        whole = model
        if dist.get_world_size() > 1:
            whole = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=tuned)
        samples = RandomSamples(shape.vocabulary, shape.length, 1)
        KEPT[name] = (model, whole, adam, samples)
        plain_iteration(*KEPT[name], micro_batches)
    return timed(lambda: plain_iteration(*KEPT[name], micro_batches), steps)


def plain_iteration(
    model: PlainGPT, whole: Any, adam: torch.optim.Optimizer, samples: Any, micro_batches: int
) -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    count = micro_batches // ranks
    adam.zero_grad()
    for number in range(count):
        start = (number * ranks + rank) * MICRO_BATCH
        rows = np.stack([samples.sample(start + n) for n in range(MICRO_BATCH)])
        text = torch.from_numpy(rows)
        if hasattr(whole, "require_backward_grad_sync"):
            whole.require_backward_grad_sync = number == count - 1
        (whole(text[:, :-1], text[:, 1:]) / count).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()


def timed(step: Callable[[], object], steps: int) -> Times:
    dist.barrier()
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    busy = time.process_time() - busy
    dist.barrier()
    return Times((time.perf_counter() - began) / steps, busy / steps)
