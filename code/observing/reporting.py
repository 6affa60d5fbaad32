"""What the program prints: the lines of today's Megatron-LM, and TensorBoard scalars under its
names.

Some of them name things that this program does not have, such as hierarchical context parallelism;
they stand here with the value of a Megatron that does not use them, so that whoever has learned to
read these lines can read those.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkpoints.checkpoint import Progress
from observing import memory_snapshot
from observing.flops import flops_per_iteration
from observing.interval import IntervalSums
from parallel.layout import Layout
from process.device import MIB, MemoryUse
from training.learning_rate import learning_rate
from training.model import Stage, dtype_of
from training.optimizer import Optimizer, StepResult


def say(text: str) -> None:
    """One write for the whole line, so that lines of several ranks never mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Interval:
    """What one iteration line says."""

    printed: datetime
    iteration: int
    consumed_samples: int
    elapsed_ms: float
    rate: float
    loss: float | None  # None where every step was skipped
    scale: float
    norm: float
    skipped: int
    nan_iterations: int
    tflops_per_device: float


def line(of: Interval, args: argparse.Namespace) -> str:
    """One decimal of TFLOP/s as Megatron has, but enough digits to tell small machines apart.

    Samples per second and TFLOPs at the end are of older Megatrons, from which many logs are.
    """
    tflops = f"{of.tflops_per_device:{'.1f' if of.tflops_per_device >= 10 else '.4f'}}"
    per_second = args.global_batch_size / of.elapsed_ms * 1e3
    more = [f"throughput per GPU (TFLOP/s/GPU): {tflops}"] if args.log_throughput else []
    last = [f"samples per second: {per_second:.3f}", f"TFLOPs: {tflops}"]
    fields = [
        f" [{of.printed:%Y-%m-%d %H:%M:%S.%f}] iteration {of.iteration:8d}/{args.train_iters:8d}",
        f"consumed samples: {of.consumed_samples:12d}",
        f"elapsed time per iteration (ms): {of.elapsed_ms:.1f}",
        *more,
        f"learning rate: {of.rate:.6E}",
        f"global batch size: {args.global_batch_size:5d}",
        *([] if of.loss is None else [f"lm loss: {of.loss:.6E}"]),
        f"loss scale: {of.scale:.1f}",
        f"grad norm: {of.norm:.3f}",
        f"number of skipped iterations: {of.skipped:3d}",
        f"number of nan iterations: {of.nan_iterations:3d}",
        *(last if args.log_throughput else []),
    ]
    return " | ".join(fields) + " |"


class Report:
    """Rank 0 speaks of the set-up, the last rank of the iterations: it has the loss."""

    def __init__(self, args: argparse.Namespace, layout: Layout, device: torch.device) -> None:
        self.args, self.layout, self.device = args, layout, device
        self.memory = MemoryUse(device)
        self.speaks_first = layout.rank == 0
        self.speaks_last = layout.everyone.last
        self.interval = IntervalSums(layout, device)
        self.writer = self._writer()
        self.told_memory = False

    def _writer(self) -> Any:
        if not (self.args.tensorboard_dir and self.speaks_last):
            return None
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.args.tensorboard_dir)

    def first(self, text: str) -> None:
        if self.speaks_first:
            say(text)

    def last(self, text: str) -> None:
        if self.speaks_last:
            say(text)

    def world(self) -> None:
        self.first(world_line(self.layout))
        for note in self.args.notes:
            self.first(f"note: {note}")
        if self.args.record_memory_history:
            self.first(f"note: {memory_snapshot.note(self.args, self.device)}")
        self.first(f"using {dtype_of(self.args)} for parameters ...")
        self.first("------------------------ arguments ------------------------")
        for name in sorted(vars(self.args)):
            if name != "notes":
                dots = "." * (48 - len(name))
                self.first(f"  {name} {dots} {getattr(self.args, name)}")
        self.first("-------------------- end of arguments ---------------------")

    def built(self, micro_batches: int, stages: list[Stage]) -> None:
        self.first(f"setting number of microbatches to constant {micro_batches}")
        # One line for each part of the model: tensor and pipeline ranks of the first copy.
        if self.layout.copies.first:
            at = (self.layout.tensor.index, 0, self.layout.pipeline.index)
            count = sum(math.prod(p.shape) for stage in stages for p in stage.parameters())
            where = f"(tensor, gtp_weight_remat, pipeline) model parallel rank {at}"
            say(f" > number of parameters on {where}: {count}")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time that does not count as an iteration's."""
        began = time.perf_counter()
        yield
        self.interval.since += time.perf_counter() - began

    def step(
        self, progress: Progress, loss_sum: Tensor, result: StepResult, optimizer: Optimizer
    ) -> None:
        """Adds one iteration to the interval that the next line is about."""
        self.interval.add(loss_sum, result)
        if progress.iteration % self.args.log_interval == 0:
            with self.paused():
                self._tell(progress, result.norm.item(), optimizer)
                self.memory_report(progress.iteration)
            self.interval.begin(Progress())

    def _tell(self, progress: Progress, norm: float, optimizer: Optimizer) -> None:
        """All ranks come here: the losses are summed over them."""
        counted = self.interval.counted
        tokens = self.args.global_batch_size * self.args.seq_length
        elapsed_ms = self.interval.elapsed_ms()
        loss, nan_iterations = self.interval.over_ranks()
        tflops = flops_per_iteration(self.args) / elapsed_ms / 1e9  # per ms / 10⁹ = 10¹² per s
        interval = Interval(
            printed=datetime.now(),
            iteration=progress.iteration,
            consumed_samples=progress.consumed_samples,
            elapsed_ms=elapsed_ms,
            rate=learning_rate(optimizer.steps_taken, self.args),
            loss=loss / counted / tokens if counted else None,
            scale=optimizer.loss_scale.scale,
            norm=norm,
            skipped=self.interval.skipped,
            nan_iterations=nan_iterations,
            tflops_per_device=tflops / self.layout.grid.world_size,
        )
        self.last(line(interval, self.args))
        for name, value in self._scalars(interval).items():
            self.scalar(name, value, progress.iteration)

    def _scalars(self, interval: Interval) -> dict[str, float]:
        """Under the names that Megatron-LM gives them."""
        allocated, most, _, _ = self.memory.bytes()
        values = {
            "learning-rate": interval.rate,
            "batch-size": self.args.global_batch_size,
            "loss-scale": interval.scale,
            "grad-norm": interval.norm,
            "iteration-time": interval.elapsed_ms / 1e3,
            "throughput": interval.tflops_per_device,
            "mem-allocated-bytes": allocated,
            "mem-max-allocated-bytes": most,
        }
        return values if interval.loss is None else {**values, "lm loss": interval.loss}

    def memory_report(self, iteration: int) -> None:
        """After the first line of the run, and every --log-memory-interval: ranks of one copy."""
        every = self.args.log_memory_interval
        if self.told_memory and not (every and iteration % every == 0):
            return
        self.told_memory = True
        if self.layout.data.first:  # what other data ranks hold is of the same size
            now, peak, reserved, most = (size / MIB for size in self.memory.bytes())
            say(
                f"[Rank {self.layout.rank}] (after {iteration} iterations) memory (MB) | "
                f"allocated: {now:.2f} | max allocated: {peak:.2f} | reserved: {reserved:.2f} | "
                f"max reserved: {most:.2f}"
            )

    def saving(self, progress: Progress, folder: Path) -> None:
        """All ranks come here: `progress` takes along what no line has told yet."""
        where = f"at iteration {progress.iteration:7d} to {folder}"
        self.first(f"saving checkpoint {where} in torch_dist format")
        self.interval.note(progress)

    def evaluation(self, title: str, loss: float, iteration: int) -> None:
        perplexity = math.exp(min(20.0, loss))  # as Megatron does, so that it never overflows
        line = (
            f" validation loss at {title} | lm loss value: {loss:.6E} | "
            f"lm loss PPL: {perplexity:.6E} | "
        )
        self.last("-" * (len(line) + 1))
        self.last(line)
        self.last("-" * (len(line) + 1))
        self.scalar("lm loss validation", loss, iteration)
        self.scalar("lm loss validation ppl", perplexity, iteration)

    def scalar(self, name: str, value: float, iteration: int) -> None:
        if self.writer is not None:
            self.writer.add_scalar(name, value, iteration)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def world_line(layout: Layout) -> str:
    sizes = layout.sizes
    return (
        f"using world size: {layout.grid.world_size}, data-parallel size: {sizes['data']}, "
        f"context-parallel size: {sizes['context']}, hierarchical context-parallel sizes: None, "
        f"tensor-model-parallel size: {sizes['tensor']}, "
        f"pipeline-model-parallel size: {sizes['pipeline']}"
    )
