"""Pretrain a GPT on any number of devices, in any parallel layout.

    python code/pretrain_gpt.py --train-iters 20 --log-interval 5              one process
    torchrun --nproc-per-node 4 code/pretrain_gpt.py \\
        --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
        --micro-batch-size 2 --global-batch-size 16                            four

Flags and log lines are Megatron-LM's. Read `main` from top to bottom; each import is a file that
you can read by itself: parallel/ has each rank's work and the communication, training/ the model
and the optimizer, checkpoints/ saving, dataset/ the samples, observing/ the reports."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from checkpoints.agreement import by_rank
from checkpoints.checkpoint import Checkpoints, Progress
from checkpoints.files import CheckpointError, outcome
from checkpoints.saved_model import find
from checkpoints.saving_lock import lock_on_first
from dataset.samples import Loaders, make_loaders, prepare
from faults.plant import plant
from flags.arguments import parse_arguments
from flags.same import check_same
from observing.memory_trace import MemoryRecorder
from observing.profiling import Profiler
from observing.reporting import Report
from parallel.data_parallel import Replicated, WithExperts
from parallel.fully_sharded import FullySharded
from parallel.layout import Layout, make_layout
from parallel.layout_checks import chunks_per_rank, grid_from, micro_batches
from parallel.pipeline import Pipeline
from parallel.products import WeightWork
from parallel.schedules import steps_of
from parallel.tensor_parallel import slice_of, whole_shape
from process.compiling import compile_module
from process.device import limit_memory, start
from process.environment import environment_of_rank
from process.exit import run_and_exit
from process.profile_ranges import named
from training.divergence import FiniteCheck
from training.dropout import Dropout
from training.ending import Ending
from training.learning_rate import learning_rate
from training.model import Stage, dtype_of, initialise, piece_of
from training.optimizer import Holder, Optimizer, StepResult
from training.router import Routing


@dataclass
class Training:
    """Objects of a training run."""

    args: argparse.Namespace
    layout: Layout
    device: torch.device
    stages: list[Stage]
    routing: Routing
    holder: Holder
    optimizer: Optimizer
    pipeline: Pipeline
    loaders: Loaders
    micro_batches: int
    checkpoints: Checkpoints


def build(
    args: argparse.Namespace, layout: Layout, device: torch.device, loaders: Loaders | None = None
) -> Training:
    """Build the model's pieces on this rank, and everything that works on them."""
    loaders = loaders or make_loaders(args, layout, device)
    count, chunks = micro_batches(args, layout.grid), chunks_per_rank(args)
    stages = build_model(args, layout, device)
    # Before FSDP2 replaces these parameters by slices.
    slices = {
        name: (whole_shape(p), slice_of(p))
        for stage in stages
        for name, p in stage.named_parameters()
    }
    holder = share_over_data(args, layout, stages)
    if args.torch_compile:
        for stage in stages:
            compile_module(stage, "reduce-overhead" if args.cuda_graphs else None)
    steps = steps_of(
        args.pipeline_schedule, layout.pipeline.size, layout.pipeline.index, count, chunks
    )
    # Message between stages: [rows, hidden], one row per token of a micro-batch on this rank.
    rows = stages[0].positions.numel() * args.micro_batch_size
    like = torch.empty(rows, args.hidden_size, dtype=dtype_of(args), device=device)
    dropout = Dropout(args, layout)
    routing = Routing(stages)
    pipeline = Pipeline(layout, stages, steps, like, holder.last_backward, dropout, routing.begin)
    optimizer = Optimizer(holder, args)
    checkpoints = Checkpoints(optimizer, slices, routing.biases(), args)
    return Training(
        args, layout, device, stages, routing, holder, optimizer, pipeline, loaders, count,
        checkpoints,
    )  # fmt: skip


def build_model(args: argparse.Namespace, layout: Layout, device: torch.device) -> list[Stage]:
    """Build this rank's slice of every matrix in its layers, with the undivided model's values."""
    stages, chunks = [], chunks_per_rank(args)
    for chunk in range(chunks):
        work = WeightWork(returned=args.use_torch_fsdp2 or args.torch_compile)
        stage = Stage(args, layout, piece_of(args, layout, chunk, chunks), work)
        initialise(stage, args)
        stages.append(stage.to(device, torch.float64 if args.fp64 else torch.float32))
    return stages


def share_over_data(args: argparse.Namespace, layout: Layout, stages: list[Stage]) -> Holder:
    """Apply data parallelism: every data rank gets a copy of these stages, or a shard."""
    if args.use_torch_fsdp2:
        low = dtype_of(args) if args.fp16 or args.bf16 else None
        return FullySharded(stages[0], layout, low, args.fp8_param_gather)
    wide = torch.float64 if args.fp64 else torch.float32
    gradient_type = wide if args.accumulate_allreduce_grads_in_fp32 else dtype_of(args)
    stages = [stage.to(dtype_of(args)) for stage in stages]
    zero1 = args.use_distributed_optimizer
    rest = Replicated(stages, layout, gradient_type, zero1)
    holder: Replicated | WithExperts = rest
    if Routing(stages).mixtures:
        experts = Replicated(stages, layout, gradient_type, zero1, of_experts=True)
        holder = WithExperts(rest, experts)
    # A zero-bubble schedule computes weight gradients after backward, so no sum can start early.
    early = args.overlap_grad_reduce and args.pipeline_schedule != "zero-bubble"
    if early and layout.data_context.size > 1:
        holder.overlap(stages, args.ddp_bucket_size)
    return holder


def train_step(training: Training, progress: Progress) -> tuple[Tensor, StepResult]:
    """Run forward and backward of every micro-batch, and one optimizer step."""
    args, optimizer = training.args, training.optimizer
    with named("data"):
        batches = training.loaders["train"].batch(progress.consumed_samples, training.micro_batches)
    training.holder.zero()
    tokens = args.global_batch_size * args.seq_length
    # Factor of each token in the mean: gradients then add up over micro-batches and ranks.
    loss_gradient = optimizer.loss_scale.scale / tokens
    loss = training.pipeline.train(batches, loss_gradient, progress.consumed_samples)
    result = optimizer.step(learning_rate(optimizer.steps_taken, args))
    training.routing.move_biases()
    progress.iteration += 1
    progress.consumed_samples += args.global_batch_size
    return loss, result


def evaluate(training: Training, name: str) -> float:
    """Return the mean loss over --eval-iters batches of the validation or test share."""
    args, total = training.args, torch.zeros((), dtype=torch.float64)
    for number in range(args.eval_iters):
        first = number * args.global_batch_size
        batches = training.loaders[name].batch(first, training.micro_batches)
        total += training.pipeline.evaluate(batches).cpu()
    training.holder.evaluated()
    total = training.layout.sum_of_losses(total.to(training.device))
    return total.item() / (args.eval_iters * args.global_batch_size * args.seq_length)


def train(training: Training, report: Report, progress: Progress) -> None:
    """Loop until the steps or the time are used up: step, report, evaluate, save."""
    args, layout = training.args, training.layout
    ends = Ending(args, layout, training.device)
    profiler = Profiler(args, layout.rank, MemoryRecorder(training))
    finite = FiniteCheck(args, training.device)
    saved = progress.iteration
    report.interval.begin()
    while progress.iteration < args.train_iters:
        profiler.before_step(progress.iteration)
        loss, result = train_step(training, progress)
        profiler.after_step()
        report.step(progress, loss, result, training.optimizer)
        finite.step(progress.iteration, loss, result)
        if args.eval_iters and progress.iteration % args.eval_interval == 0:
            with report.paused():
                mean = evaluate(training, "validation")
                report.evaluation(f"iteration {progress.iteration}", mean, progress.iteration)
        why = ends.reason(progress.iteration)
        if args.save and (why or progress.iteration % args.save_interval == 0):
            finite.look(progress.iteration)
            with report.paused():
                save(training, report, progress)
            saved = progress.iteration
        if why:
            report.first(f"exiting program at iteration {progress.iteration}: {why}")
            break
    training.checkpoints.finish()
    finite.end(progress.iteration)
    if args.save and progress.iteration > saved:  # as in Megatron-LM: the last steps are not lost
        save(training, report, progress)
        training.checkpoints.finish()
    profiler.stop()


def save(training: Training, report: Report, progress: Progress) -> None:
    folder, number = Path(training.args.save), progress.iteration
    report.saving(number, folder)
    training.checkpoints.save(
        folder, progress, lambda problem: report.first(outcome(folder, number, problem))
    )
    if training.args.async_save:
        report.first(f"  scheduled an async checkpoint save at iteration {number:7d} to {folder}")


def load(training: Training, report: Report, source: Path | None, warnings: list[str]) -> Progress:
    args = training.args
    for warning in warnings:
        report.first(f"WARNING: {warning}")
    if source is None:
        return Progress()
    loaded = training.checkpoints.load(source, args.finetune or args.no_load_optim)
    report.first(f"successfully loaded checkpoint from {args.load} at iteration {loaded.iteration}")
    return Progress() if args.finetune else loaded


def main(argv: list[str] | None = None) -> int:
    rank, world_size, _ = environment_of_rank()
    args = parse_arguments(sys.argv[1:] if argv is None else argv, world_size)
    grid = grid_from(args, world_size)
    plant(sys.modules[__name__], args)
    prepare(args, grid)
    device = start(args)
    check_same(args)
    layout = make_layout(grid, rank)
    # Before anything large is built, so that a refusal comes early.
    loaders = make_loaders(args, layout, device)
    locks = lock_on_first(Path(args.save)) if args.save else []
    source, warnings = find(args, grid.sizes["tp"])
    limit_memory(device)
    report = Report(args, layout, device)
    report.world()
    training = build(args, layout, device, loaders)
    report.built(training.micro_batches, training.stages, training.routing, training.holder)
    progress = load(training, report, source, warnings)
    train(training, report, progress)
    for name in ("validation", "test") if args.eval_iters else ():
        title = f"iteration {progress.iteration} on {name} set"
        report.evaluation(title, evaluate(training, name), progress.iteration)
    report.close()
    for lock in locks:
        lock.close()
    if (unsaved := training.checkpoints.unsaved) and rank == 0:
        raise CheckpointError(f"the last checkpoint could not be written: {by_rank(unsaved)}")
    return 0


if __name__ == "__main__":
    run_and_exit(main)
