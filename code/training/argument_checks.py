"""Flags that contradict each other, whatever the number of devices.

What depends on that number is checked by parallel/layout_checks.py, and each value by itself by
its range in ranges.py: here all values lie in theirs.
"""

from __future__ import annotations

import argparse


def problems_of(args: argparse.Namespace) -> list[str]:
    """One sentence for each."""
    return [*_contradictions(args), *_unfit_numbers(args)]


def _contradictions(args: argparse.Namespace) -> list[str]:
    found = []
    if sum((args.fp16, args.bf16, args.fp64)) > 1:
        found.append("choose one of --fp16, --bf16 and --fp64")
    if args.hidden_dropout or args.attention_dropout:
        found.append(
            "dropout is not supported, since runs of different layouts could no longer be "
            "compared; give --hidden-dropout 0 --attention-dropout 0"
        )
    if args.cuda_graphs and not args.torch_compile:
        found.append("--cuda-graphs needs --torch-compile, which records them")
    if args.cuda_graphs and args.pipeline_model_parallel_size > 1:
        found.append(
            "--cuda-graphs keeps the activations of one micro-batch, a pipeline several; choose one"
        )
    if args.recompute_granularity != "full" and args.recompute_method:
        found.append("--recompute-method needs --recompute-granularity full")
    if args.recompute_granularity != "full" and args.recompute_num_layers is not None:
        found.append("--recompute-num-layers needs --recompute-granularity full")
    if args.world_size is not None and not args.dry_run:
        found.append(
            "--world-size needs --dry-run, which assumes so many devices; a training has as many "
            "as its launcher starts (torchrun --nproc-per-node, srun --ntasks)"
        )
    if args.tokenizer_type == "NullTokenizer" and args.vocab_size is None:
        found.append("--tokenizer-type NullTokenizer has no files; give --vocab-size")
    if args.tokenizer_type == "HuggingFaceTokenizer" and not args.tokenizer_model:
        found.append(
            "--tokenizer-type HuggingFaceTokenizer needs --tokenizer-model, its tokenizer.json"
        )
    return found


def _unfit_numbers(args: argparse.Namespace) -> list[str]:
    found = []
    if args.hidden_size % args.num_attention_heads:
        found.append(
            f"--hidden-size {args.hidden_size} cannot be split into --num-attention-heads "
            f"{args.num_attention_heads} equal heads"
        )
    if args.max_position_embeddings < args.seq_length:
        found.append(
            f"--max-position-embeddings {args.max_position_embeddings} is less than --seq-length "
            f"{args.seq_length}"
        )
    if (args.profile or args.record_memory_history) and (
        args.profile_step_start >= args.profile_step_end
    ):
        found.append("--profile-step-start must lie before --profile-step-end, from step 1")
    if args.fp16 and args.min_loss_scale > args.initial_loss_scale:
        found.append(
            f"--min-loss-scale {args.min_loss_scale:g} is more than --initial-loss-scale "
            f"{args.initial_loss_scale:g}, where scaling starts"
        )
    return found
