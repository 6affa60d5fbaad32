"""Pretrain a GPT on any number of devices, in any parallel layout.

    python code/pretrain_gpt.py --train-iters 20 --log-interval 5              one process
    torchrun --nproc-per-node 4 code/pretrain_gpt.py \\
        --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
        --micro-batch-size 2 --global-batch-size 16                            four

Flags and lines are Megatron-LM's. Read `main` from top to bottom; each import is one file that can
be read alone: layout.py (who does what), model.py, tensor_parallel.py, context_parallel.py,
pipeline.py with schedules.py, data_parallel.py, optimizer.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import torch
from arguments import parse_arguments
from data_parallel import FullySharded, Replicated
from device import environment_of_rank, fail, start
from layout import Grid, Layout, make_layout
from layout_checks import chunks_per_rank, grid_from, micro_batches
from model import Stage, initialise, piece_of, slice_of
from optimizer import Optimizer, learning_rate
from pipeline import Pipeline
from products import WeightWork
from reporting import Report, dtype_of
from samples import DEFAULT_DATA, Loader, make_loaders
from schedules import steps_of
from tokenizer_files import padded, vocabulary_size


@dataclass
class Training:
    """What a training run consists of."""

    args: argparse.Namespace
    layout: Layout
    stages: list[Stage]
    holder: Replicated | FullySharded
    optimizer: Optimizer
    pipeline: Pipeline
    loaders: dict[str, Loader]
    micro_batches: int
    places: dict[str, tuple[slice, ...]]  # of this rank's parameters in the whole model's


def prepare(args: argparse.Namespace, grid: Grid) -> None:
    """What follows from the data: the vocabulary, padded so that tensor ranks share it evenly."""
    if not args.mock_data:
        args.data_path = args.data_path or [DEFAULT_DATA]
    args.vocab_size = vocabulary_size(args)
    tensor = grid.sizes["tp"]
    args.padded_vocab_size = padded(args.vocab_size, args.make_vocab_size_divisible_by, tensor)


def build(args: argparse.Namespace, layout: Layout, device: torch.device) -> Training:
    """The model's pieces of this rank, and everything that acts on them."""
    count = micro_batches(args, layout.grid)
    chunks = chunks_per_rank(args)
    returned = args.use_torch_fsdp2 or args.torch_compile
    stages = []
    for chunk in range(chunks):
        piece = piece_of(args, layout, chunk, chunks)
        stage = Stage(args, layout, piece, WeightWork(returned))
        initialise(stage, args)
        stages.append(stage.to(device, torch.float64 if args.fp64 else torch.float32))
    low = dtype_of(args) if args.fp16 or args.bf16 else None
    places = {n: slice_of(p, layout) for stage in stages for n, p in stage.named_parameters()}
    holder: Replicated | FullySharded
    if args.use_torch_fsdp2:
        holder = FullySharded(stages[0], layout, low)
    else:
        wide = torch.float64 if args.fp64 else torch.float32
        gradient_type = wide if args.accumulate_allreduce_grads_in_fp32 else dtype_of(args)
        stages = [stage.to(dtype_of(args)) for stage in stages]
        holder = Replicated(stages, layout, gradient_type, args.use_distributed_optimizer)
    steps = steps_of(
        args.pipeline_schedule, layout.pipeline.size, layout.pipeline.index, count, chunks
    )
    rows = stages[0].positions.numel() * args.micro_batch_size
    like = torch.empty(rows, args.hidden_size, dtype=dtype_of(args), device=device)
    pipeline = Pipeline(layout, stages, steps, like, holder.last_backward)
    loaders = make_loaders(args, layout, device)
    optimizer = Optimizer(holder, args)
    return Training(args, layout, stages, holder, optimizer, pipeline, loaders, count, places)


def train_step(training: Training, iteration: int):
    """Forward and backward for every micro-batch, one step of the optimizer."""
    args, optimizer = training.args, training.optimizer
    batches = training.loaders["train"].batch(
        iteration * args.global_batch_size, training.micro_batches
    )
    training.holder.zero()
    tokens = args.global_batch_size * args.seq_length
    seed = optimizer.loss_scale.scale * training.holder.seed_factor / tokens
    loss = training.pipeline.train(batches, seed)
    result = optimizer.step(learning_rate(iteration + 1, args))
    return loss, result


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(sys.argv[1:] if argv is None else argv)
    rank, world_size, _ = environment_of_rank()
    grid = grid_from(args, world_size)
    prepare(args, grid)
    device = start(args)
    layout = make_layout(grid, rank)
    report = Report(args, layout, device)
    report.world()
    training = build(args, layout, device)
    report.first(f"setting number of micro-batches to constant {training.micro_batches}")
    report.parameters(sum(p.numel() for stage in training.stages for p in stage.parameters()))
    report.since = time.perf_counter()
    for iteration in range(args.train_iters):
        loss, result = train_step(training, iteration)
        report.step(loss, result.skipped)
        if (iteration + 1) % args.log_interval == 0:
            rate = learning_rate(iteration + 1, args)
            report.line(iteration + 1, rate, training.optimizer.loss_scale.scale, result.norm)
            report.memory_report(iteration + 1)
    report.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:  # every rank ends at once and says why
        fail(error)
