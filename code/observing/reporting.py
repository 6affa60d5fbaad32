"""Lines of the log in today's Megatron-LM format, and TensorBoard scalars under its names.

Some lines name features that this program does not have, such as hierarchical context parallelism.
They have the value of a Megatron that does not use them, so that readers and tools can learn
Megatron's lines here."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from checkpoints.checkpoint import Progress
from observing.flops import flops_per_iteration
from observing.profiling import snapshot_path
from parallel.layout import Layout
from process.device import MIB, MemoryUse
from training.eight_bits import emulated
from training.learning_rate import learning_rate
from training.model import Stage, dtype_of
from training.optimizer import Holder, Optimizer, StepResult
from training.router import Routing


def say(text: str) -> None:
    """Write the whole line at once, so that lines of several ranks never mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class IntervalSums:
    """Sums over the steps since the last log line, for the next one."""

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self.begin()

    def begin(self) -> None:
        self.steps = self.skipped = 0
        # Float64, as layouts add up in different orders, which the printed digits must not show.
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.nan_iterations = torch.zeros_like(self.loss)
        self.since = time.perf_counter()

    def add(self, loss_sum: Tensor, result: StepResult) -> None:
        self.steps += 1
        if result.skipped:
            self.skipped += 1
        else:
            self.loss += loss_sum
        # Counted on the device: reading the value here would make a GPU wait at every step.
        self.nan_iterations += ~torch.isfinite(loss_sum)

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.since) * 1e3 / self.steps

    def over_ranks(self) -> tuple[float, int]:
        """Sum the losses of all tokens, and count steps whose loss is NaN. All ranks call this."""
        loss, bad = self.layout.sum_of_losses(
            torch.stack([self.loss, self.nan_iterations])
        ).tolist()
        # Each rank counted its own steps. Data ranks may count the same step, so limit the sum.
        return loss, min(self.steps, math.ceil(bad))


class Report:
    """Writer of the log: rank 0 reports the set-up, the last rank the iterations and the loss."""

    def __init__(self, args: argparse.Namespace, layout: Layout, device: torch.device) -> None:
        self.args, self.layout, self.device = args, layout, device
        self.memory = MemoryUse(device)
        self.speaks_first = layout.rank == 0
        self.speaks_last = layout.everyone.last
        self.interval = IntervalSums(layout, device)
        self.writer = scalar_writer(args, self.speaks_last)
        self.told_memory = False

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
        if note := emulated(self.args, self.device):
            self.first(f"note: {note}")
        if self.args.record_memory_history:
            traces = f"memory traces of every rank to {self.args.memory_dir}/rank<R>.jsonl.gz"
            snapshots = (
                f" and PyTorch's snapshots to {snapshot_path(self.args, 0)} …"
                if self.device.type == "cuda"
                else "; PyTorch's memory snapshots (--memory-snapshot-path) exist on CUDA only"
            )
            self.first(f"note: writing {traces}{snapshots}")
        self.first(f"using {dtype_of(self.args)} for parameters ...")
        self.first("------------------------ arguments ------------------------")
        for name in sorted(vars(self.args)):
            if name != "notes":
                dots = "." * (48 - len(name))
                self.first(f"  {name} {dots} {getattr(self.args, name)}")
        self.first("-------------------- end of arguments ---------------------")

    def built(
        self, micro_batches: int, stages: list[Stage], routing: Routing, holder: Holder
    ) -> None:
        self.routing = routing
        self.first(f"setting number of microbatches to constant {micro_batches}")
        if gathered := getattr(holder, "gathered_bytes", 0):
            self.first(f" > bytes that a gather of all parameters sends to a rank: {gathered}")
        # One line per part of the model: tensor and pipeline ranks of the first copy.
        if self.layout.data_context.first:
            at = (self.layout.tensor.index, 0, self.layout.pipeline.index)
            count = sum(math.prod(p.shape) for stage in stages for p in stage.parameters())
            where = f"(tensor, gtp_weight_remat, pipeline) model parallel rank {at}"
            say(f" > number of parameters on {where}: {count}")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude this time from the iteration time."""
        began = time.perf_counter()
        yield
        self.interval.since += time.perf_counter() - began

    def step(
        self, progress: Progress, loss_sum: Tensor, result: StepResult, optimizer: Optimizer
    ) -> None:
        """Add one iteration to the interval of the next line."""
        self.interval.add(loss_sum, result)
        if progress.iteration % self.args.log_interval == 0:
            with self.paused():
                self._tell(progress, result.norm.item(), optimizer)
                self.memory_report(progress.iteration)
            self.interval.begin()

    def _tell(self, progress: Progress, norm: float, optimizer: Optimizer) -> None:
        """Print a line; all ranks call this, as it sums the losses over them."""
        args, interval, scale = self.args, self.interval, optimizer.loss_scale.scale
        counted = interval.steps - interval.skipped
        elapsed_ms = interval.elapsed_ms()
        loss_sum, nan_iterations = interval.over_ranks()
        routing = self.routing.of_all_ranks(args, self.layout.everyone, self.device)
        loss = loss_sum / counted / (args.global_batch_size * args.seq_length) if counted else None
        # per ms / 10⁹ = 10¹² per s
        tflops = flops_per_iteration(args) / elapsed_ms / 1e9 / self.layout.grid.world_size
        # One decimal as in Megatron, but more digits for slow machines.
        shown = f"{tflops:{'.1f' if tflops >= 10 else '.4f'}}"
        per_second = args.global_batch_size / elapsed_ms * 1e3
        rate = learning_rate(optimizer.steps_taken, args)
        more = [f"throughput per GPU (TFLOP/s/GPU): {shown}"] if args.log_throughput else []
        # Older Megatrons, which wrote many existing logs, have samples per second and TFLOPs at the
        # end.
        last = [f"samples per second: {per_second:.3f}", f"TFLOPs: {shown}"]
        fields = [
            f" [{datetime.now():%Y-%m-%d %H:%M:%S.%f}] "
            f"iteration {progress.iteration:8d}/{args.train_iters:8d}",
            f"consumed samples: {progress.consumed_samples:12d}",
            f"elapsed time per iteration (ms): {elapsed_ms:.1f}",
            *more,
            f"learning rate: {rate:.6E}",
            f"global batch size: {args.global_batch_size:5d}",
            *([] if loss is None else [f"lm loss: {loss:.6E}"]),
            f"loss scale: {scale:.1f}",
            f"grad norm: {norm:.3f}",
            f"number of skipped iterations: {interval.skipped:3d}",
            f"number of nan iterations: {nan_iterations:3d}",
            *(last if args.log_throughput else []),
            *(f"{name}: {value}" for name, value in routing.items()),
        ]
        self.last(" | ".join(fields) + " |")
        allocated, most, _, _ = self.memory.bytes()
        scalars = {  # Megatron-LM's names
            "learning-rate": rate,
            "batch-size": args.global_batch_size,
            "loss-scale": scale,
            "grad-norm": norm,
            "iteration-time": elapsed_ms / 1e3,
            "throughput": tflops,
            "mem-allocated-bytes": allocated,
            "mem-max-allocated-bytes": most,
            **({} if loss is None else {"lm loss": loss}),
        }
        scalars |= {name: float(value) for name, value in routing.items()}
        for name, value in scalars.items():
            self.scalar(name, value, progress.iteration)

    def memory_report(self, iteration: int) -> None:
        """Print one copy's memory after the first line and at each --log-memory-interval."""
        every = self.args.log_memory_interval
        if self.told_memory and not (every and iteration % every == 0):
            return
        self.told_memory = True
        if self.layout.data.first:  # other data ranks hold as much
            now, peak, reserved, most = (size / MIB for size in self.memory.bytes())
            say(
                f"[Rank {self.layout.rank}] (after {iteration} iterations) memory (MB) | "
                f"allocated: {now:.2f} | max allocated: {peak:.2f} | reserved: {reserved:.2f} | "
                f"max reserved: {most:.2f}"
            )

    def saving(self, iteration: int, folder: Path) -> None:
        where = f"at iteration {iteration:7d} to {folder}"
        self.first(f"saving checkpoint {where} in torch_dist format")

    def evaluation(self, title: str, loss: float, iteration: int) -> None:
        perplexity = math.exp(min(20.0, loss))  # as Megatron does, to avoid an overflow
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


def scalar_writer(args: argparse.Namespace, speaks: bool) -> Any:
    """Return TensorBoard's writer, on the one rank that speaks, if a folder is given."""
    if not (args.tensorboard_dir and speaks):
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(args.tensorboard_dir)


def world_line(layout: Layout) -> str:
    sizes = layout.sizes
    return (
        f"using world size: {layout.grid.world_size}, data-parallel size: {sizes['data']}, "
        f"context-parallel size: {sizes['context']}, hierarchical context-parallel sizes: None, "
        f"tensor-model-parallel size: {sizes['tensor']}, "
        f"pipeline-model-parallel size: {sizes['pipeline']}"
    )
