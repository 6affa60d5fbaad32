"""Flags that contradict each other or have no effect, independent of the number of devices.

parallel/layout_checks.py checks what depends on that number. ranges.py checks each value by itself,
so here every value is in its range.

A flag that needs another one is refused only if the user would wait for a result that never comes:
another run's weights, or a profile. Other flags without effect get a note in the log."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from flags.ranges import pattern_of
from parallel.layout_checks import near
from training.learning_rate import warmup_steps
from training.rotary import turned_width

MAPPING = "tp-cp-ep-pp-dp"
Asked = Callable[[argparse.Namespace], object]
# Condition of each contradiction, and its message with flag values by name.
CONTRADICTIONS: list[tuple[Asked, str]] = [
    (lambda a: sum((a.fp16, a.bf16, a.fp64)) > 1, "choose one of --fp16, --bf16 and --fp64"),
    (lambda a: a.data_path and a.mock_data,
     "--mock-data trains on random tokens, --data-path on a text; choose one"),
    (lambda a: a.ddp_bucket_size is not None and not a.overlap_grad_reduce,
     "--ddp-bucket-size needs --overlap-grad-reduce"),
    (lambda a: a.recompute_activations and a.recompute_granularity == "full",
     "choose one of --recompute-activations (short for --recompute-granularity selective) and "
     "--recompute-granularity full"),
    (lambda a: a.recompute_method and a.recompute_granularity != "full",
     "--recompute-method needs --recompute-granularity full"),
    (lambda a: a.recompute_num_layers is not None and a.recompute_granularity != "full",
     "--recompute-num-layers needs --recompute-granularity full"),
    (lambda a: a.tokenizer_type == "NullTokenizer" and a.vocab_size is None,
     "--tokenizer-type NullTokenizer has no files; give --vocab-size"),
    (lambda a: a.torch_compile and (a.hidden_dropout or a.attention_dropout),
     "choose one of --torch-compile and dropout: dropout sets a seed for every mask, which one "
     "graph cannot contain"),
    (lambda a: a.cp_comm_type == "p2p" and a.attention_dropout,
     "--cp-comm-type p2p has no --attention-dropout; use --cp-comm-type allgather"),
    (lambda a: a.cp_comm_type == "p2p" and a.torch_compile,
     "--cp-comm-type p2p cannot be compiled; use --cp-comm-type allgather with --torch-compile"),
    (lambda a: a.num_experts and not a.disable_bias_linear,
     "--num-experts needs --disable-bias-linear: experts have no biases"),
    (lambda a: a.num_experts and a.moe_router_topk > a.num_experts,
     "--moe-router-topk {moe_router_topk} is more than --num-experts {num_experts}; give at most "
     "{num_experts}"),
    (lambda a: a.num_experts and a.moe_router_topk == 1 and a.moe_router_score_function == "softmax"
     and not a.moe_router_pre_softmax,
     "--moe-router-topk 1 needs --moe-router-pre-softmax: the softmax over one expert is always 1, "
     "and its router would learn nothing"),
    (lambda a: a.moe_router_enable_expert_bias and a.moe_router_score_function == "softmax",
     "--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid"),
    (lambda a: a.num_experts and a.tensor_model_parallel_size > 1 and not a.sequence_parallel,
     "--num-experts with --tensor-model-parallel-size {tensor_model_parallel_size} needs "
     "--sequence-parallel, so that every rank sends its own rows"),
    (lambda a: a.num_experts and a.use_torch_fsdp2,
     "--use-torch-fsdp2 has no experts; use --use-distributed-optimizer with --num-experts"),
    (lambda a: a.num_experts and a.torch_compile,
     "--num-experts cannot be compiled, since experts get a different number of rows each time; "
     "leave out --torch-compile"),
    (lambda a: a.num_experts
     and len(pattern_of(a.moe_layer_freq, a.num_layers)) != a.num_layers,
     "--moe-layer-freq {moe_layer_freq} must have a 0 or 1 for each of --num-layers {num_layers}"),
    (lambda a: a.num_experts and not any(pattern_of(a.moe_layer_freq, a.num_layers)),
     "--moe-layer-freq {moe_layer_freq} selects no layer; leave out --num-experts"),
    (lambda a: a.fp8_format and a.torch_compile,
     "--fp8-format cannot be compiled; leave out --torch-compile"),
    (lambda a: a.cuda_graphs and not a.torch_compile,
     "--cuda-graphs needs --torch-compile, which records them"),
    (lambda a: a.cuda_graphs and a.pipeline_model_parallel_size > 1,
     "choose one of --cuda-graphs and a pipeline: a graph keeps the activations of one "
     "micro-batch, a pipeline those of several"),
    (lambda a: a.overlap_grad_reduce and a.torch_compile,
     "choose one of --overlap-grad-reduce and --torch-compile: a compiled layer does not report "
     "when its gradients are complete"),
    (lambda a: a.torch_compile and a.pipeline_schedule == "zero-bubble",
     "choose one of --pipeline-schedule zero-bubble and --torch-compile: a compiled layer "
     "cannot compute weight gradients later"),
    (lambda a: a.ffn_hidden_size < 1,  # SwiGLU's default width is rounded to a multiple of 64
     "--swiglu with --hidden-size {hidden_size} gives an MLP of width 0; give "
     "--ffn-hidden-size, or a hidden size of at least 24"),
    (lambda a: a.max_position_embeddings < a.seq_length,
     "--max-position-embeddings {max_position_embeddings} is less than --seq-length {seq_length}; "
     "give {seq_length} or more, or leave it out"),
    (lambda a: a.fp16 and a.min_loss_scale > a.initial_loss_scale,
     "--min-loss-scale {min_loss_scale:g} is more than --initial-loss-scale "
     "{initial_loss_scale:g}, where scaling starts"),
    (lambda a: a.min_lr > a.lr,
     "--min-lr {min_lr:g} is above --lr {lr:g}, the highest rate; give {lr:g} or less, or a higher "
     "--lr"),
    (lambda a: a.lr_warmup_init > a.lr,
     "--lr-warmup-init {lr_warmup_init:g} is above --lr {lr:g}, the highest rate; give {lr:g} or "
     "less, or a higher --lr"),
    (lambda a: a.lr_warmup_fraction is not None and a.lr_warmup_iters,
     "choose one of --lr-warmup-fraction and --lr-warmup-iters"),
    (lambda a: a.finetune and not a.load,
     "--finetune needs --load: training would start from random weights"),
    (lambda a: a.no_load_optim and not a.load,
     "--no-load-optim needs --load: training would start from random weights"),
    (lambda a: a.use_tp_pp_dp_mapping and a.rank_order != MAPPING,
     "choose one of --use-tp-pp-dp-mapping and --rank-order {rank_order}"),
    (lambda a: a.expert_model_parallel_size > 1 and not a.num_experts,
     "--expert-model-parallel-size needs --num-experts: without it, the model has no experts"),
    (lambda a: a.fp8_param_gather
     and not (a.use_torch_fsdp2 and a.fp8_format and a.fp8_recipe == "tensorwise"),
     "--fp8-param-gather needs --use-torch-fsdp2, --fp8-format and --fp8-recipe tensorwise, where "
     "a matrix has one scale"),
    (lambda a: a.use_pytorch_profiler and not (a.profile or a.record_memory_history),
     "--use-pytorch-profiler needs --profile: nothing is recorded"),
]  # fmt: skip


def problems_of(args: argparse.Namespace) -> list[str]:
    """Return one sentence for each problem."""
    found = [text.format(**vars(args)) for wrong, text in CONTRADICTIONS if wrong(args)]
    return [*found, *_unfit_recording(args), *_unfit_attention(args), *_unfit_schedule(args)]


def _unfit_recording(args: argparse.Namespace) -> list[str]:
    if not (args.profile or args.record_memory_history):
        return []
    first, last = args.profile_step_start, args.train_iters - 1
    if first >= args.profile_step_end:
        return ["--profile-step-start must lie before --profile-step-end, from step 1"]
    if first <= last:
        return []
    # The step before the first recorded step warms up the profiler.
    cure = f"give {last} or less" if last else "train for 2 steps or more"
    return [
        f"--profile-step-start {first} leaves nothing to record in --train-iters "
        f"{args.train_iters}; {cure}"
    ]


def _unfit_attention(args: argparse.Namespace) -> list[str]:
    found = []
    heads, groups = args.num_attention_heads, args.num_query_groups
    if args.hidden_size % heads:
        found.append(
            f"--hidden-size {args.hidden_size} cannot be split into --num-attention-heads {heads} "
            f"equal heads; use {near(args.hidden_size, heads)}, or another number of heads"
        )
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
    # Components are rotated in pairs, so at least one pair is needed: see rotary.py.
    width = args.hidden_size // heads
    turned = turned_width(width, args.rotary_percent)
    if width < 2:
        found.append(
            f"--num-attention-heads {heads} gives each head 1 component of --hidden-size "
            f"{args.hidden_size}, but rotary positions rotate pairs; give fewer heads"
        )
    elif turned < 2 or turned % 2:
        even = max(2, turned // 2 * 2)
        found.append(
            f"--rotary-percent {args.rotary_percent:g} rotates {turned} of a head's {width} "
            "components, but rotary positions rotate pairs; give "
            f"{math.ceil(1000 * even / width) / 1000:g}, which rotates {even}"
        )
    return found


def _unfit_schedule(args: argparse.Namespace) -> list[str]:
    """Return problems of a schedule that the learning rate could not follow."""
    found = []
    # Warm-up, constant phase (WSD only) and decay together take --lr-decay-iters.
    decaying = args.lr_decay_iters - warmup_steps(args)
    if decaying <= 0:
        found.append(
            f"a warm-up of {warmup_steps(args):g} steps leaves no decay in --lr-decay-iters "
            f"{args.lr_decay_iters} (default: --train-iters); choose a shorter warm-up"
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


# Flags that scripts carry from run to run, the condition under which they have an effect, and what
# they need. Without an effect, they are accepted with a note in the log.
NEEDS: list[tuple[tuple[str, ...], Asked, str]] = [
    (("--sequence-parallel",), lambda a: a.tensor_model_parallel_size > 1,
     "--tensor-model-parallel-size 2 or more"),
    (("--save-interval", "--async-save"), lambda a: a.save, "--save: nothing is saved"),
    (
        ("--rotary-base", "--rotary-percent"),
        lambda a: a.position_embedding_type == "rope",
        "--position-embedding-type rope",
    ),
    (
        (
            "--moe-layer-freq", "--moe-ffn-hidden-size", "--moe-router-topk",
            "--moe-shared-expert-intermediate-size", "--moe-router-score-function",
            "--moe-router-pre-softmax", "--moe-router-load-balancing-type", "--moe-aux-loss-coeff",
            "--moe-router-enable-expert-bias", "--expert-tensor-parallel-size",
        ),
        lambda a: a.num_experts,
        "--num-experts",
    ),
    (
        ("--moe-router-bias-update-rate",),
        lambda a: a.moe_router_enable_expert_bias,
        "--moe-router-enable-expert-bias",
    ),
    (("--cp-comm-type",), lambda a: a.context_parallel_size > 1,
     "--context-parallel-size 2 or more"),
    (("--fp8-recipe",), lambda a: a.fp8_format, "--fp8-format"),
    (("--lr-wsd-decay-style",), lambda a: a.lr_decay_style == "WSD", "--lr-decay-style WSD"),
    (("--lr-warmup-init",), lambda a: a.lr_warmup_fraction or a.lr_warmup_iters,
     "--lr-warmup-iters or --lr-warmup-fraction"),
    (
        ("--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"),
        lambda a: a.fp16 and a.loss_scale is None,
        "--fp16 with a dynamic loss scale",
    ),
    (("--profile-step-start", "--profile-step-end", "--profile-ranks", "--profile-dir"),
     lambda a: a.profile or a.record_memory_history, "--profile or --record-memory-history"),
    (("--memory-snapshot-path",), lambda a: a.record_memory_history, "--record-memory-history"),
    (("--eval-interval",), lambda a: a.eval_iters, "--eval-iters, which is 0 by default"),
    (
        ("--overlap-grad-reduce",),
        lambda a: not a.use_torch_fsdp2 and a.pipeline_schedule != "zero-bubble",
        "a schedule that finishes gradients layer by layer (FSDP2 sums them early anyway, "
        "zero-bubble computes weight gradients last)",
    ),
    (("--accumulate-allreduce-grads-in-fp32",), lambda a: not a.use_torch_fsdp2,
     "a run without FSDP2, which always sums in float32"),
    (("--vocab-file",), lambda a: a.vocab_size is None,
     "a run without --vocab-size, which overrides it"),
]  # fmt: skip


def notes(args: argparse.Namespace, argv: list[str]) -> list[str]:
    """Return a note for each given flag that has no effect, also if it repeats the default."""
    given = {word.partition("=")[0] for word in argv}
    return [
        f"{flag} has no effect: it needs {need}"
        for flags, has_effect, need in NEEDS
        for flag in flags
        if flag in given and not has_effect(args)
    ]
