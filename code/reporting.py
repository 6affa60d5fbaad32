"""What the program prints: Megatron-LM's lines, and TensorBoard scalars under its names."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from device import MIB, MemoryUse
from layout import Layout
from torch import Tensor


def dtype_of(args: argparse.Namespace) -> torch.dtype:
    if args.fp64:
        return torch.float64
    return torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32


def flops_per_iteration(args: argparse.Namespace) -> float:
    """Model FLOPs of the matrix products: 2 per weight and token forward, twice that backward.

    72 B s l h² (1 + s / 6h + V / 12lh) for an MLP of 4h; recomputation is not counted, attention
    counts as if it looked at all positions.
    """
    hidden, length = args.hidden_size, args.seq_length
    per_layer = 4 * hidden**2 + 2 * hidden * args.ffn_hidden_size + 2 * hidden * length
    weights = args.num_layers * per_layer + args.padded_vocab_size * hidden
    return 6.0 * weights * args.global_batch_size * length


def say(text: str) -> None:
    """One write for the whole line, so that lines of several ranks never mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Report:
    """Rank 0 speaks of the set-up, the last rank of the iterations: it has the loss."""

    def __init__(self, args: argparse.Namespace, layout: Layout, device: torch.device) -> None:
        self.args, self.layout = args, layout
        self.memory = MemoryUse(device)
        self.speaks_first = layout.rank == 0
        self.speaks_last = layout.everyone.last
        self.loss = torch.zeros((), device=device)
        self.nan_iterations = torch.zeros((), device=device)
        self.skipped = self.steps = 0
        self.since = time.perf_counter()
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
        sizes = self.layout.sizes
        context = f"context-parallel size: {sizes['context']}, " if sizes["context"] > 1 else ""
        self.first(
            f"using world size: {self.layout.grid.world_size}, "
            f"data-parallel-size: {sizes['data']}, {context}tensor-model-parallel size: {sizes['tensor']}, "
            f"pipeline-model-parallel size: {sizes['pipeline']}"
        )
        for note in self.args.notes:
            self.first(f"note: {note}")
        self.first(f"using {dtype_of(self.args)} for parameters ...")
        self.first("------------------------ arguments ------------------------")
        for name in sorted(vars(self.args)):
            if name != "notes":
                dots = "." * (48 - len(name))
                self.first(f"  {name} {dots} {getattr(self.args, name)}")
        self.first("-------------------- end of arguments ---------------------")

    def parameters(self, count: int) -> None:
        """One line for each part of the model, told by the first rank that holds it."""
        if self.layout.copies.first:
            at = (self.layout.tensor.index, self.layout.pipeline.index)
            where = "(tensor, pipeline) model parallel rank"
            say(f" > number of parameters on {where} {at}: {count}")

    def step(self, loss_sum: Tensor, skipped: bool) -> None:
        """Adds one iteration to the interval that the next line is about."""
        self.steps += 1
        if skipped:
            self.skipped += 1
        else:
            self.loss += loss_sum
        self.nan_iterations += ~torch.isfinite(loss_sum)

    def line(self, iteration: int, rate: float, scale: float, norm: Tensor) -> None:
        """The iteration line; a sum over the ranks that have a loss, so all ranks come here."""
        args, counted = self.args, self.steps - self.skipped
        elapsed_ms = (time.perf_counter() - self.since) * 1e3 / self.steps
        self._sum_losses()
        mean = self.loss.item() / max(1, counted) / (args.global_batch_size * args.seq_length)
        samples_per_second = args.global_batch_size / elapsed_ms * 1e3
        tflops = flops_per_iteration(args) / elapsed_ms / 1e9 / self.layout.grid.world_size
        fields = [
            f" iteration {iteration:8d}/{args.train_iters:8d}",
            f"consumed samples: {iteration * args.global_batch_size:12d}",
            f"elapsed time per iteration (ms): {elapsed_ms:.1f}",
        ]
        if args.log_throughput:
            fields.append(f"throughput per GPU (TFLOP/s/GPU): {tflops:{_width(tflops)}}")
        fields += [
            f"learning rate: {rate:.3E}",
            f"global batch size: {args.global_batch_size:5d}",
            *([f"lm loss: {mean:.6E}"] if counted else []),
            f"loss scale: {scale:.1f}",
            f"grad norm: {norm.item():.3f}",
            f"number of skipped iterations: {self.skipped:3d}",
            f"number of nan iterations: {int(self.nan_iterations.item()):3d}",
        ]
        if args.log_throughput:
            fields += [
                f"samples per second: {samples_per_second:.3f}",
                f"TFLOPs: {tflops:{_width(tflops)}}",
            ]
        self.last(" | ".join(fields) + " |")
        self._restart()

    def _sum_losses(self) -> None:
        if self.layout.everyone.size > 1:
            both = torch.stack([self.loss, self.nan_iterations]) / self.layout.tensor.size
            dist.all_reduce(both, group=self.layout.everyone.handle)
            self.loss, self.nan_iterations = both[0], both[1].clamp(max=self.steps)

    def _restart(self) -> None:
        self.loss = torch.zeros_like(self.loss)
        self.nan_iterations = torch.zeros_like(self.nan_iterations)
        self.skipped = self.steps = 0
        self.since = time.perf_counter()

    def memory_report(self, iteration: int) -> None:
        """Once, after the first line (or every --log-memory-interval): ranks of the first copy."""
        every = self.args.log_memory_interval
        if not (iteration % every == 0 if every else not self.told_memory):
            return
        self.told_memory = True
        if self.layout.data.first:
            now, peak, reserved, most = (size / MIB for size in self.memory.bytes())
            say(
                f"[Rank {self.layout.rank}] (after {iteration} iterations) memory (MB) | "
                f"allocated: {now:.2f} | max allocated: {peak:.2f} | reserved: {reserved:.2f} | "
                f"max reserved: {most:.2f}"
            )

    def evaluation(self, title: str, loss: float, iteration: int) -> None:
        perplexity = math.exp(min(20.0, loss))
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


def _width(tflops: float) -> str:
    """One decimal as Megatron has, but enough digits to tell small machines apart."""
    return ".1f" if tflops >= 10 else ".4f"
