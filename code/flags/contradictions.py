"""Flags that contradict each other or have no effect, independent of the number of devices.

parallel/layout_checks.py checks what depends on that number. ranges.py checks each value by itself,
so here every value is in its range.

A flag that needs another one is refused only if the user would wait for a result that never comes:
another run's weights, or a profile. Other flags without effect get a note in the log."""

from __future__ import annotations

import argparse
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
    (lambda a: (a.recompute_method or a.recompute_num_layers) and a.recompute_granularity != "full",
     "--recompute-method and --recompute-num-layers need --recompute-granularity full"),
    (lambda a: a.tokenizer_type == "NullTokenizer" and a.vocab_size is None,
     "--tokenizer-type NullTokenizer has no files; give --vocab-size"),
    (lambda a: a.torch_compile
     and (a.hidden_dropout or a.attention_dropout or a.cp_comm_type == "p2p" or a.num_experts
          or a.fp8_format or a.overlap_grad_reduce or a.pipeline_schedule == "zero-bubble"),
     "--torch-compile compiles neither dropout nor --cp-comm-type p2p, --num-experts, "
     "--fp8-format, --overlap-grad-reduce or --pipeline-schedule zero-bubble; leave out these, or "
     "--torch-compile"),
    (lambda a: a.cp_comm_type == "p2p" and a.attention_dropout,
     "--cp-comm-type p2p has no --attention-dropout; use --cp-comm-type allgather"),
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
    (lambda a: a.num_experts
     and len(pattern_of(a.moe_layer_freq, a.num_layers)) != a.num_layers,
     "--moe-layer-freq {moe_layer_freq} must have a 0 or 1 for each of --num-layers {num_layers}"),
    (lambda a: a.num_experts and not any(pattern_of(a.moe_layer_freq, a.num_layers)),
     "--moe-layer-freq {moe_layer_freq} selects no layer; leave out --num-experts"),
    (lambda a: a.cuda_graphs and not a.torch_compile,
     "--cuda-graphs needs --torch-compile, which records them"),
    (lambda a: a.cuda_graphs and a.pipeline_model_parallel_size > 1,
     "choose one of --cuda-graphs and a pipeline: a graph keeps the activations of one "
     "micro-batch, a pipeline those of several"),
    (lambda a: a.ffn_hidden_size < 1,  # SwiGLU's default width is rounded to a multiple of 64
     "--swiglu with --hidden-size {hidden_size} gives an MLP of width 0; give "
     "--ffn-hidden-size, or a hidden size of at least 24"),
    (lambda a: a.max_position_embeddings < a.seq_length,
     "--max-position-embeddings {max_position_embeddings} is less than --seq-length {seq_length}; "
     "give {seq_length} or more, or leave it out"),
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
    first = args.profile_step_start
    if first >= args.profile_step_end:
        return ["--profile-step-start must lie before --profile-step-end, from step 1"]
    if first < args.train_iters:
        return []
    # The step before the first recorded step warms up the profiler.
    return [
        f"--profile-step-start {first} leaves nothing to record in --train-iters "
        f"{args.train_iters}; give an earlier step, or train longer"
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
        found.append(
            f"--num-attention-heads {heads} cannot be split into --num-query-groups {groups} equal "
            f"groups; use a divisor of {heads}"
        )
    if args.position_embedding_type != "rope" or args.hidden_size % heads:
        return found
    width = args.hidden_size // heads
    turned = turned_width(width, args.rotary_percent)
    if turned < 2 or turned % 2:  # see rotary.py
        found.append(
            f"--rotary-percent {args.rotary_percent:g} rotates {turned} of a head's {width} "
            "components, but rotary positions rotate pairs; give a share or a number of heads for "
            "which this number is even"
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


# Flags that scripts carry from run to run, after the flag without which they have no effect.
NEEDS: list[tuple[str, tuple[str, ...]]] = [
    ("--save", ("--save-interval", "--async-save")),
    ("--eval-iters", ("--eval-interval",)),
    ("--tensor-model-parallel-size", ("--sequence-parallel",)),
    ("--context-parallel-size", ("--cp-comm-type",)),
    ("--position-embedding-type", ("--rotary-base", "--rotary-percent")),
    (
        "--num-experts",
        (
            "--moe-layer-freq", "--moe-ffn-hidden-size", "--moe-router-topk",
            "--moe-shared-expert-intermediate-size", "--moe-router-score-function",
            "--moe-router-pre-softmax", "--moe-router-load-balancing-type", "--moe-aux-loss-coeff",
            "--moe-router-enable-expert-bias", "--expert-tensor-parallel-size",
        ),
    ),
    ("--moe-router-enable-expert-bias", ("--moe-router-bias-update-rate",)),
    ("--fp8-format", ("--fp8-recipe",)),
    ("--fp16", ("--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis")),
    ("--record-memory-history", ("--memory-snapshot-path",)),
]  # fmt: skip


def notes(argv: list[str]) -> list[str]:
    """Return a note for each given flag that has no effect, also if it repeats the default."""
    given = {word.partition("=")[0] for word in argv}
    return [
        f"{flag} has no effect: it needs {need}"
        for need, flags in NEEDS
        for flag in flags
        if flag in given and need not in given
    ]
