"""Train a vision transformer to forecast the weather six hours ahead.

    python code/make_weather.py                                   weather to learn from
    python code/train_vit.py --config tiny                        one process
    torchrun --nproc-per-node 4 code/train_vit.py --config tiny   four, by DDP
    torchrun ... --tensor-model-parallel-size 2 --context-parallel-size 2   sharing each sample

Configurations are in weather/configurations.yaml; each of their keys is also a flag. Read `main`
first, at the end of the file. samples.py reads the data, vit.py is the model, scores.py scores
forecasts, and sharing.py distributes the work over ranks."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from observing.profiling import Profiler
from parallel.layout import Layout, make_layout
from process.compiling import compile_module
from process.device import limit_memory, start
from process.environment import environment_of_rank
from process.errors import ArgumentsError, DivergedError
from process.exit import run_and_exit
from process.pace import communicating, computing, keep_pace
from process.profile_ranges import named
from training.learning_rate import learning_rate, scaled_rate
from weather.configuration import parse
from weather.epoch_report import EpochReport, Judged
from weather.recorded_step import RecordedStep, check_possible
from weather.samples import Batches, ForecastPairs, GlobalBatches, Sample, make_batches
from weather.scores import relative_l2, row_weights, wind_rmse
from weather.sharing import SlicesScaler, averaged, check_patches, grid_of
from weather.vit import WeatherModel

AMP = {"none": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Learning:
    """Objects of a training run."""

    args: argparse.Namespace
    layout: Layout
    device: torch.device
    plain: WeatherModel
    model: nn.Module  # the plain one, or DDP around it
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    schedule: argparse.Namespace
    train: Batches
    valid: Batches
    steps_of_epoch: int
    pairs: ForecastPairs  # for validation
    steps: int = 0
    recorded: RecordedStep | None = None

    def halves(self) -> AbstractContextManager[object]:
        kind = AMP[self.args.amp_mode]
        return torch.autocast(self.device.type, kind, enabled=kind != torch.float32)

    def rate(self) -> float:
        return learning_rate(self.steps, self.schedule)


def build(args: argparse.Namespace, device: torch.device) -> Learning:
    if args.cuda_graphs:
        check_possible(args, device, dist.get_world_size())
    layout = make_layout(grid_of(args, dist.get_world_size()), dist.get_rank())
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = args.tf32
    data, valid = ForecastPairs(args, "train"), ForecastPairs(args, "valid")
    check_patches(data, layout)
    rank, ranks = layout.data.index, layout.data.size
    batches = GlobalBatches(len(data), args.global_batch_size, rank, ranks, args.seed)
    if not len(batches):
        raise ArgumentsError(
            f"--global-batch-size {args.global_batch_size} is more than the {len(data)} training "
            f"samples; give at most {len(data)}, or more with --train-samples"
        )
    judged = GlobalBatches(len(valid), args.global_batch_size, rank, ranks, None)
    torch.manual_seed(args.seed)  # the same weights on every rank; DDP would send rank 0's anyway
    share = layout.tensor, layout.context
    plain = WeatherModel(args, data.height, data.width, data.channels, *share).to(device)
    if args.torch_compile:
        for layer in plain.layers:  # all layers share one set of kernels
            compile_module(layer)
    model = averaged(plain, args, layout, device)
    schedule = schedule_of(args, args.epochs * len(batches))
    optimizer = optimizer_of(args, model, schedule.lr, device)
    scaler = SlicesScaler(device, args.amp_mode == "fp16", layout.tensor)
    learning = Learning(
        args, layout, device, plain, model, optimizer, scaler, schedule,
        make_batches(data, batches, args, device), make_batches(valid, judged, args, device),
        len(batches), valid,
    )  # fmt: skip
    if args.cuda_graphs:
        clear = partial(optimizer.zero_grad, set_to_none=True)
        learning.recorded = RecordedStep(partial(compute, learning), clear)
    return learning


def optimizer_of(
    args: argparse.Namespace, model: nn.Module, rate: float, device: torch.device
) -> torch.optim.Adam:
    """Create Adam. For a recorded step, the rate is a tensor that changes on the device."""
    return torch.optim.Adam(
        model.parameters(), torch.tensor(rate, device=device) if args.cuda_graphs else rate,
        (0.9, 0.95), fused=args.fused_optimizer or None, capturable=args.cuda_graphs,
    )  # fmt: skip


def schedule_of(args: argparse.Namespace, steps: int) -> argparse.Namespace:
    """Return values for training/learning_rate.py. A k times larger batch has √k less noise in its
    gradient, which `sqrt` compensates."""
    if args.warmup_iters >= steps:
        told = f"--warmup-iters {args.warmup_iters} leaves none of the {steps} steps; give fewer"
        raise ArgumentsError(told)
    return argparse.Namespace(
        lr=scaled_rate(args.lr, args.lr_scaling, args.global_batch_size, args.lr_batch_size),
        min_lr=0.0, lr_decay_style="cosine",
        lr_decay_iters=steps, lr_warmup_fraction=None, lr_warmup_iters=args.warmup_iters,
        lr_warmup_init=0.0,
    )  # fmt: skip


def train_step(
    learning: Learning, batch: Sample, after_forward: Callable[[], None] | None = None
) -> Tensor:
    """Run one step; return the loss of this rank's share of the batch, before the update."""
    for group in learning.optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning.rate())
        else:
            group["lr"] = learning.rate()
    if learning.recorded is not None:
        loss = learning.recorded(batch, after_forward)
    else:
        learning.optimizer.zero_grad(set_to_none=True)
        loss = compute(learning, batch, after_forward)
    learning.steps += 1
    return loss


def compute(
    learning: Learning, batch: Sample, after_forward: Callable[[], None] | None = None
) -> Tensor:
    now, later, corner = batch
    # The first step of a compiled model compiles it, which is no device work.
    part = communicating if learning.args.torch_compile and not learning.steps else computing
    with part("forward"), learning.halves():
        loss = relative_l2(learning.model(now, corner), later).mean()
    if after_forward is not None:
        after_forward()
    with part("backward"):
        learning.scaler.scale(loss).backward()
    with computing("optimizer"):
        learning.scaler.step(learning.optimizer)
        learning.scaler.update()
    return loss.detach()


def train_epoch(learning: Learning, number: int, report: EpochReport, profiler: Profiler) -> None:
    args = learning.args
    learning.model.train()
    total, began = torch.zeros((), device=learning.device), time.perf_counter()
    batches = iter(learning.train(number))
    for _ in range(learning.steps_of_epoch):
        profiler.before_step(learning.steps)
        with communicating("data"):  # not paced, since reading is no device work
            batch = next(batches)
        first = learning.steps == 0
        total += train_step(learning, batch, report.after_first_forward if first else None)
        profiler.after_step()
    next(batches, None)  # exhaust the loader, so that its workers are ready for the next epoch
    dist.all_reduce(total)  # also waits for the device
    loss = total.item() / learning.steps_of_epoch / dist.get_world_size()
    seconds = time.perf_counter() - began
    samples = learning.steps_of_epoch * args.global_batch_size
    report.epoch(number, seconds, samples, loss, learning.rate())
    if not math.isfinite(loss):
        raise DivergedError(
            f"epoch {number}: the loss is {loss}. Lower --lr, or warm up longer (--warmup-iters)"
        )


def eager(args: argparse.Namespace) -> AbstractContextManager[object]:
    """Run layers without compilation: it would not pay for a few validation batches."""
    return torch.compiler.set_stance("force_eager") if args.torch_compile else nullcontext()


@torch.no_grad()
def judge(learning: Learning, number: int) -> Judged:
    """Return the scores over all validation pairs. Each rank computes a share of the pairs."""
    began, pairs, device = time.perf_counter(), learning.pairs, learning.device
    learning.plain.eval()
    stds = torch.from_numpy(pairs.stds).to(device)
    latitudes = torch.from_numpy(pairs.latitudes).to(device)
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    for now, later, corner in learning.valid(number):
        with named("validation"), learning.halves(), eager(learning.args):
            forecast = learning.plain(now, corner)
        rows = corner[:, :1] + torch.arange(now.shape[2], device=device)
        weights = row_weights(latitudes)[rows]
        sums[0] += relative_l2(forecast, later).sum()
        sums[1] += wind_rmse(forecast, later, stds, weights).sum()
        sums[2] += wind_rmse(now, later, stds, weights).sum()
        sums[3] += len(now)
    dist.all_reduce(sums)
    loss, wind, persistence = (sums[:3] / sums[3]).tolist()
    return Judged(loss, wind, persistence, time.perf_counter() - began)


def train(learning: Learning, report: EpochReport) -> None:
    profiler = Profiler(learning.args, dist.get_rank())
    for number in range(1, learning.args.epochs + 1):
        train_epoch(learning, number, report, profiler)
        report.judged(number, judge(learning, number))
    profiler.stop()


def main(argv: list[str] | None = None) -> int:
    _, ranks, _ = environment_of_rank()
    args = parse(sys.argv[1:] if argv is None else argv, ranks)
    device = start(args)
    limit_memory(device)
    if not args.torch_compile:  # its hooks would break a compiled function at each layer
        keep_pace()
    report = EpochReport(args, dist.get_rank(), device)
    learning = build(args, device)
    parameters = sum(p.numel() for p in learning.plain.parameters())
    report.begins(learning.layout, parameters, learning.schedule.lr)
    train(learning, report)
    report.close()
    return 0


if __name__ == "__main__":
    run_and_exit(main)
