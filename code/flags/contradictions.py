"""Flags that contradict each other, whatever the number of devices.

What depends on that number is checked by parallel/layout_checks.py, and each value by itself by
its range in ranges.py: here all values lie in theirs.
"""

from __future__ import annotations

import argparse

from dataset.samples import weighted
from parallel.layout_checks import near
from parallel.rotary import turned_width
from process.errors import DataError
from training.learning_rate import warmup_steps


def problems_of(args: argparse.Namespace) -> list[str]:
    """One sentence for each."""
    return [
        *_contradictions(args),
        *_uncompilable(args),
        *_unfit_numbers(args),
        *_unfit_recording(args),
        *_unfit_attention(args),
        *_unfit_schedule(args),
    ]


def _contradictions(args: argparse.Namespace) -> list[str]:
    found = []
    if sum((args.fp16, args.bf16, args.fp64)) > 1:
        found.append("choose one of --fp16, --bf16 and --fp64")
    if args.data_path and args.mock_data:
        found.append("--mock-data trains on random tokens, --data-path on a text; choose one")
    if args.ddp_bucket_size is not None and not args.overlap_grad_reduce:
        found.append("--ddp-bucket-size needs --overlap-grad-reduce")
    if args.recompute_activations and args.recompute_granularity == "full":
        found.append(
            "--recompute-activations is short for --recompute-granularity selective; choose one of "
            "it and --recompute-granularity full"
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
    found += _unfit_weights(args.data_path or [])
    if args.tokenizer_type == "NullTokenizer" and args.vocab_size is None:
        found.append("--tokenizer-type NullTokenizer has no files; give --vocab-size")
    if args.tokenizer_type == "HuggingFaceTokenizer" and not args.tokenizer_model:
        found.append(
            "--tokenizer-type HuggingFaceTokenizer needs --tokenizer-model, its tokenizer.json"
        )
    return found


def _uncompilable(args: argparse.Namespace) -> list[str]:
    found = []
    if args.torch_compile and (args.hidden_dropout or args.attention_dropout):
        found.append(
            "--torch-compile makes one graph, and dropout sets a seed for every mask; choose one"
        )
    if args.cuda_graphs and not args.torch_compile:
        found.append("--cuda-graphs needs --torch-compile, which records them")
    if args.cuda_graphs and args.pipeline_model_parallel_size > 1:
        found.append(
            "--cuda-graphs keeps the activations of one micro-batch, a pipeline several; choose one"
        )
    if args.overlap_grad_reduce and args.torch_compile:
        found.append(
            "--overlap-grad-reduce sums a layer's gradients when it is done, which compiled layers "
            "do not tell; choose one of it and --torch-compile"
        )
    if args.torch_compile and args.pipeline_schedule == "zero-bubble":
        found.append(
            "--pipeline-schedule zero-bubble puts off the gradients of weights, which compiled "
            "layers compute at once; choose one of it and --torch-compile"
        )
    return found


def _unfit_weights(words: list[str]) -> list[str]:
    try:
        if words:
            weighted(words)
    except DataError as error:
        return [str(error)]
    return []


def _unfit_numbers(args: argparse.Namespace) -> list[str]:
    found = []
    if args.ffn_hidden_size < 1:  # SwiGLU's own width is cut to a multiple of 64
        found.append(
            f"--swiglu makes an MLP of width 0 of --hidden-size {args.hidden_size}; give "
            "--ffn-hidden-size, or a hidden size of 24 or more"
        )
    if args.hidden_size % args.num_attention_heads:
        found.append(
            f"--hidden-size {args.hidden_size} cannot be split into --num-attention-heads "
            f"{args.num_attention_heads} equal heads; use "
            f"{near(args.hidden_size, args.num_attention_heads)}, or another number of heads"
        )
    if args.max_position_embeddings < args.seq_length:
        found.append(
            f"--max-position-embeddings {args.max_position_embeddings} is less than --seq-length "
            f"{args.seq_length}; give {args.seq_length} or more, or leave it out"
        )
    if args.fp16 and args.min_loss_scale > args.initial_loss_scale:
        found.append(
            f"--min-loss-scale {args.min_loss_scale:g} is more than --initial-loss-scale "
            f"{args.initial_loss_scale:g}, where scaling starts"
        )
    return found


def _unfit_recording(args: argparse.Namespace) -> list[str]:
    if not (args.profile or args.record_memory_history):
        return []
    first, last = args.profile_step_start, args.train_iters - 1
    if first >= args.profile_step_end:
        return ["--profile-step-start must lie before --profile-step-end, from step 1"]
    if first <= last:
        return []
    # The step before the first that is recorded warms the profiler up.
    cure = f"give {last} or less" if last else "one step cannot be recorded, give 2 or more"
    return [
        f"--profile-step-start {first} is behind the last of --train-iters {args.train_iters} that "
        f"could be recorded, so nothing would be; {cure}"
    ]


def _unfit_attention(args: argparse.Namespace) -> list[str]:
    found = []
    heads, groups = args.num_attention_heads, args.num_query_groups
    if not args.group_query_attention and groups != heads:
        found.append(
            f"--num-query-groups {groups} has no effect without --group-query-attention; give both"
        )
    elif heads % groups:
        fitting = [n for n in range(1, heads + 1) if heads % n == 0]
        found.append(
            f"--num-attention-heads {heads} cannot be split into --num-query-groups {groups} equal "
            f"groups; use one of {', '.join(map(str, fitting))}"
        )
    if args.position_embedding_type != "rope" or args.hidden_size % heads:
        return found
    # Components turn in pairs, and at least one pair has to: see rotary.py.
    width = args.hidden_size // heads
    turned = turned_width(width, args.rotary_percent)
    if width < 2:
        found.append(
            f"--num-attention-heads {heads} leave 1 component of --hidden-size {args.hidden_size} "
            "to each; rotary positions turn pairs, so give fewer heads"
        )
    elif turned < 2 or turned % 2:
        found.append(
            f"--rotary-percent {args.rotary_percent:g} of a head's {width} components is {turned}; "
            f"rotary positions turn pairs, so it must be an even number from 2 to {width}"
        )
    return found


def _unfit_schedule(args: argparse.Namespace) -> list[str]:
    """What the learning rate's scheduler could not follow."""
    found = []
    for flag, rate in (("--min-lr", args.min_lr), ("--lr-warmup-init", args.lr_warmup_init)):
        if rate > args.lr:
            found.append(
                f"{flag} {rate:g} is above --lr {args.lr:g}, the highest rate; give {args.lr:g} or "
                "less, or a higher --lr"
            )
    if args.lr_warmup_fraction is not None and args.lr_warmup_iters:
        found.append("choose one of --lr-warmup-fraction and --lr-warmup-iters")
    # Warm-up, stable stretch (WSD alone) and decay share --lr-decay-iters.
    decaying = args.lr_decay_iters - warmup_steps(args)
    if decaying <= 0:
        found.append(
            f"a warm-up of {warmup_steps(args):g} steps leaves none of --lr-decay-iters "
            f"{args.lr_decay_iters} (default: --train-iters) for the decay; warm up for less"
        )
    last = args.lr_wsd_decay_iters
    if (args.lr_decay_style == "WSD") != (last is not None):
        found.append("--lr-decay-style WSD and --lr-wsd-decay-iters go together; give both")
    elif last is not None and not 0 < last <= decaying:
        found.append(
            f"--lr-wsd-decay-iters {last} must be at least 1 and, with the warm-up of "
            f"{warmup_steps(args):g}, at most {decaying:g} of the --lr-decay-iters"
        )
    return found
