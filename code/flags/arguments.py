"""Values of a run from its command line: parsed, checked and completed with defaults.

The flags themselves are rows of tables.py."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from flags import contradictions, other_names
from flags.parser import FlagParser
from flags.tables import GROUPS
from parallel.layout_checks import grid_from
from process.errors import ArgumentsError, LayoutError


def make_parser() -> FlagParser:
    return FlagParser("Pretrain a GPT in any parallel layout.", GROUPS)


def parse_arguments(argv: list[str], world_size: int = 0) -> argparse.Namespace:
    """Return the arguments, or raise an ArgumentsError with all problems. If the number of ranks is
    given, other problems are reported with the layout's problems. `grid_from` reports the layout's
    problems if there are no others."""
    argv, notes = other_names.translate(argv)
    parser = make_parser()
    args, unknown = parser.parse_known_args(argv)
    wrong = parser.take_out_wrong(args)
    _fill_in(args)
    args.notes = [*notes, *contradictions.notes(argv)]
    # A message about a flag with a wrong value would be about the default.
    found = [*wrong.values(), *parser.unknown(unknown)]
    others = contradictions.problems_of(args)
    if (found or others) and world_size:
        others += _layout_problems(args, world_size)
    found += [p for p in others if not any(flag in p for flag in wrong)]
    if found:
        raise ArgumentsError(*found)
    return args


def _layout_problems(args: argparse.Namespace, world_size: int) -> list[str]:
    try:
        grid_from(args, world_size)
    except LayoutError as error:
        return error.problems
    return []


def _fill_in(args: argparse.Namespace) -> None:
    """Set the defaults that depend on other values."""
    _fill_in_model(args)
    args.softmax_rows = None  # the whole padded vocabulary, unless a checkpoint has fewer rows
    args.lr_decay_iters = args.lr_decay_iters or args.train_iters
    args.save_interval = args.save_interval or args.train_iters
    if args.rank_order is None:
        args.rank_order = contradictions.MAPPING if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp"
    if args.recompute_activations:
        args.recompute_granularity = args.recompute_granularity or "selective"
    if args.recompute_granularity == "full":
        args.recompute_method = args.recompute_method or "uniform"
        args.recompute_num_layers = args.recompute_num_layers or 1
    if args.pipeline_schedule is None:
        interleaved = args.num_layers_per_virtual_pipeline_stage is not None
        args.pipeline_schedule = "interleaved" if interleaved else "1f1b"
    if args.bf16:  # sums of many bfloat16 numbers lose the last terms
        args.accumulate_allreduce_grads_in_fp32 = True
    if args.tensor_model_parallel_size == 1:  # there are no tensor ranks to split the rows over
        args.sequence_parallel = False
    run_folder = fill_in_folders(args)
    args.memory_dir = str(run_folder / "memory")
    snapshots = run_folder / "snapshots" / "snapshot.pickle"
    args.memory_snapshot_path = args.memory_snapshot_path or str(snapshots)


def fill_in_folders(args: argparse.Namespace) -> Path:
    """Set the folders of scalars and profiles; return the run's folder, or this one."""
    if run_folder := os.environ.get("COURSE_RUN_DIR"):
        args.tensorboard_dir = args.tensorboard_dir or str(Path(run_folder) / "tensorboard")
        args.profile_dir = args.profile_dir or str(Path(run_folder) / "profile")
    args.profile_dir = args.profile_dir or args.tensorboard_dir or "profile"
    return Path(run_folder or ".")


def _fill_in_model(args: argparse.Namespace) -> None:
    """Set the model's defaults as Megatron does. SwiGLU has three matrices instead of two, so two
    thirds of the width keep the number of parameters, in multiples of 64 for efficient kernels."""
    if args.ffn_hidden_size is None:
        wide = 4 * args.hidden_size
        args.ffn_hidden_size = wide * 2 // 3 // 64 * 64 if args.swiglu else wide
    if args.moe_ffn_hidden_size is None:
        args.moe_ffn_hidden_size = args.ffn_hidden_size
    if args.expert_tensor_parallel_size is None:
        args.expert_tensor_parallel_size = args.tensor_model_parallel_size
    if args.num_query_groups is None:
        args.num_query_groups = 1 if args.group_query_attention else args.num_attention_heads
    args.max_position_embeddings = args.max_position_embeddings or args.seq_length
