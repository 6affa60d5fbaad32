"""Checks that the layout fits the model and the batch, before anything is built.

Each problem names the numbers, the rule, and values that would work."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from parallel.layout import Grid, expert_grid, make_grid
from process.errors import LayoutError
from training.eight_bits import BLOCK


def near(value: int, step: int) -> str:
    """Return the multiples of `step` around `value`."""
    below = value // step * step
    return f"{below} or {below + step}" if below else str(below + step)


def uneven(args: argparse.Namespace, shares: Iterable[tuple[str, int, str]]) -> list[str]:
    """Return the flags whose values a group of ranks cannot share evenly; `shares` has the name,
    the number of ranks and the group of each."""
    return [
        f"--{name.replace('_', '-')} {value} cannot be shared by {group} {ranks}; use a multiple "
        f"of {ranks} ({near(value, ranks)})"
        for name, ranks, group in shares
        if (value := getattr(args, name)) and value % ranks
    ]


def grid_from(args: argparse.Namespace, world_size: int) -> Grid:
    """Return the rank grid of these arguments; raise a LayoutError with everything that does not
    fit."""
    grid = make_grid(
        world_size,
        args.tensor_model_parallel_size,
        args.context_parallel_size,
        args.pipeline_model_parallel_size,
        args.rank_order,
    )
    if args.num_experts:
        sizes = args.expert_model_parallel_size, args.expert_tensor_parallel_size
        grid = replace(grid, experts=expert_grid(grid, *sizes))
    found = [*_model_problems(args), *_pipeline_problems(args), *_batch_problems(args, grid)]
    found += [*_expert_problems(args), *_eight_bit_problems(args)]
    found += [*_sharding_problems(args), *_profile_rank_problems(args, grid)]
    if found:
        raise LayoutError(*found)
    return grid


def micro_batches(args: argparse.Namespace, grid: Grid) -> int:
    # Only data ranks divide the samples: tensor, context and pipeline ranks share each sample.
    return args.global_batch_size // (args.micro_batch_size * grid.sizes["dp"])


def chunks_per_rank(args: argparse.Namespace) -> int:
    """Return the number of model pieces per pipeline rank: one, unless interleaved."""
    per_chunk = args.num_layers_per_virtual_pipeline_stage
    if per_chunk is None:
        return 1
    return max(1, args.num_layers // (args.pipeline_model_parallel_size * per_chunk))


def _model_problems(args: argparse.Namespace) -> list[str]:
    tensor, context = args.tensor_model_parallel_size, args.context_parallel_size
    names = ["num_attention_heads", "ffn_hidden_size"]
    names += ["num_query_groups"] if args.group_query_attention else []
    found = uneven(args, [(name, tensor, "tensor") for name in names])
    pieces = 2 * context if context > 1 else 1  # see context_parallel.py
    if args.seq_length % pieces:
        found.append(
            f"--seq-length {args.seq_length} must be a multiple of 2 × context = {pieces}, since "
            f"each rank takes an early and a late piece; use {near(args.seq_length, pieces)}"
        )
    elif args.sequence_parallel and args.seq_length // context % tensor:
        found.append(
            f"--sequence-parallel splits {args.seq_length // context} positions over tensor "
            f"{tensor}; use a --seq-length that is a multiple of {tensor * context}"
        )
    return found


def _expert_problems(args: argparse.Namespace) -> list[str]:
    if not args.num_experts:
        return []
    return uneven(args, [
        ("num_experts", args.expert_model_parallel_size, "expert"),
        ("moe_ffn_hidden_size", args.expert_tensor_parallel_size, "expert tensor"),
        ("moe_shared_expert_intermediate_size", args.tensor_model_parallel_size, "tensor"),
    ])  # fmt: skip


def _eight_bit_problems(args: argparse.Namespace) -> list[str]:
    """Return the sizes that would put numbers of several ranks into one block."""
    size = BLOCK.get(args.fp8_recipe) if args.fp8_format else None
    if size is None or args.hidden_size % args.num_attention_heads:
        return []
    keys = 2 * args.num_query_groups * args.hidden_size // args.num_attention_heads
    widths = {
        f"--hidden-size {args.hidden_size}": args.hidden_size,
        f"--ffn-hidden-size {args.ffn_hidden_size}": args.ffn_hidden_size,
        f"a width of {keys} of keys and values (--num-query-groups × 2 heads)": keys,
    }
    if shared := args.num_experts and args.moe_shared_expert_intermediate_size:
        widths[f"--moe-shared-expert-intermediate-size {shared}"] = shared
    tensor, context = args.tensor_model_parallel_size, args.context_parallel_size
    rows, pieces = args.seq_length * args.micro_batch_size, 2 * context if context > 1 else 1
    needs = [(what, value, f"tensor {tensor}", size * tensor) for what, value in widths.items()]
    what = f"--seq-length {args.seq_length} × --micro-batch-size {args.micro_batch_size} = {rows}"
    needs.append((f"{what} rows", rows, f"context {context}", size * pieces))
    return [
        f"{what} cannot give {group} whole blocks of {size}, as --fp8-recipe {args.fp8_recipe} "
        f"needs; use {near(value, step)}, or --fp8-recipe rowwise"
        for what, value, group, step in needs
        if value % step
    ]


def _pipeline_problems(args: argparse.Namespace) -> list[str]:
    found = []
    layers, stages = args.num_layers, args.pipeline_model_parallel_size
    per_chunk = args.num_layers_per_virtual_pipeline_stage
    step = stages * (per_chunk or 1)  # each stage gets the same number of whole chunks
    if layers % step:
        each = f" × {per_chunk} layers per virtual stage" if per_chunk else ""
        found.append(
            f"--num-layers {layers} must be a multiple of pipeline {stages}{each} = {step}; use "
            f"{near(layers, step)}"
        )
    if per_chunk and stages == 1:
        found.append(
            "--num-layers-per-virtual-pipeline-stage needs --pipeline-model-parallel-size 2 or more"
        )
    if (args.pipeline_schedule == "interleaved") != bool(per_chunk):
        found.append(
            "the interleaved schedule and --num-layers-per-virtual-pipeline-stage go together; "
            f"give both or neither (the schedule is {args.pipeline_schedule})"
        )
    return found


def _batch_problems(args: argparse.Namespace, grid: Grid) -> list[str]:
    micro, data = args.micro_batch_size, grid.sizes["dp"]
    step = micro * data
    # Defaults that depend on the number of data ranks, which only the grid knows.
    if args.global_batch_size is None:
        args.global_batch_size = step
    batch, stages = args.global_batch_size, args.pipeline_model_parallel_size
    if batch < 1 or batch % step:
        return [
            f"--global-batch-size {batch} is not a multiple of micro batch {micro} × data {data} "
            f"= {step}; use {near(max(batch, 0), step)}"
        ]
    if args.ddp_bucket_size is None:  # as in Megatron-LM
        args.ddp_bucket_size = max(40_000_000, 1_000_000 * grid.sizes["dp"])
    count = batch // step
    # Interleaved schedules send micro-batches through the chunks in rounds of `stages`.
    if args.num_layers_per_virtual_pipeline_stage and count % stages:
        return [
            f"the interleaved schedule needs micro-batches in multiples of pipeline {stages}; "
            f"{batch} samples make {count}; use --global-batch-size {near(batch, step * stages)}"
        ]
    return []


def _profile_rank_problems(args: argparse.Namespace, grid: Grid) -> list[str]:
    last = grid.world_size - 1
    beyond = [str(rank) for rank in args.profile_ranks if rank > last]
    if not beyond:
        return []
    return [f"--profile-ranks {' '.join(beyond)}: give ranks of this run, from 0 to {last}"]


def _sharding_problems(args: argparse.Namespace) -> list[str]:
    if not args.use_torch_fsdp2:
        return []
    found = []
    if args.pipeline_model_parallel_size > 1:
        found.append(
            "--use-torch-fsdp2 would gather parameters again for every micro-batch of a "
            "pipeline; use --use-distributed-optimizer with a pipeline"
        )
    if args.use_distributed_optimizer:
        found.append(
            "leave out --use-distributed-optimizer: --use-torch-fsdp2 already shards the optimizer"
        )
    return found
