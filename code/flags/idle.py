"""Flags that were given and change nothing, for the want of another one.

Some are refused, since whoever gave them waits for something that will never come: the weights of
another run, a profile. The others are taken with a note in the log: scripts carry them from run to
run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

Asked = Callable[[argparse.Namespace], object]
Rule = tuple[tuple[str, ...], Asked, str]
"""Flags, whether they have an effect, and what they would need."""


MAPPING = "tp-cp-ep-pp-dp"


def given_in(argv: Iterable[str]) -> set[str]:
    """The flags of a command line, also those that say what is the default anyway."""
    return {word.partition("=")[0] for word in argv if word.startswith("--")}


def _records(args: argparse.Namespace) -> bool:
    return bool(args.profile or args.record_memory_history)


def _scales(args: argparse.Namespace) -> bool:
    return bool(args.fp16 and args.loss_scale is None)


def _warms_up(args: argparse.Namespace) -> bool:
    return bool(args.lr_warmup_fraction or args.lr_warmup_iters)


def _sums_early(args: argparse.Namespace) -> bool:
    return not args.use_torch_fsdp2 and args.pipeline_schedule != "zero-bubble"


REFUSED: list[Rule] = [
    (
        ("--finetune", "--no-load-optim"),
        lambda args: args.load,
        "--load: training would begin with random weights",
    ),
    (
        ("--use-tp-pp-dp-mapping",),
        lambda args: args.rank_order == MAPPING,
        "no other --rank-order: choose one of the two",
    ),
    (("--use-pytorch-profiler",), _records, "--profile: nothing is recorded"),
    (
        ("--memory-snapshot-path",),
        lambda args: args.record_memory_history,
        "--record-memory-history: nothing is recorded",
    ),
]
NOTED: list[Rule] = [
    (("--sequence-parallel",), lambda args: args.tensor_model_parallel_size > 1,
     "--tensor-model-parallel-size 2 or more: nothing is cut"),
    (("--save-interval", "--async-save"), lambda args: args.save, "--save: nothing is saved"),
    (
        ("--rotary-base", "--rotary-percent"),
        lambda args: args.position_embedding_type == "rope",
        "--position-embedding-type rope",
    ),
    (("--lr-wsd-decay-style",), lambda args: args.lr_decay_style == "WSD", "--lr-decay-style WSD"),
    (("--lr-warmup-init",), _warms_up, "--lr-warmup-iters or --lr-warmup-fraction"),
    (
        ("--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"),
        _scales,
        "--fp16 with a dynamic loss scale",
    ),
    (("--profile-step-start", "--profile-step-end", "--profile-ranks", "--profile-dir"),
     _records, "--profile or --record-memory-history"),
    (("--eval-interval",), lambda args: args.eval_iters, "--eval-iters, which is 0 by default"),
    (("--overlap-grad-reduce",), _sums_early, "gradients that are done layer by layer: FSDP2 sums "
     "them early by itself, zero-bubble computes those of weights last"),
    (("--accumulate-allreduce-grads-in-fp32",), lambda args: not args.use_torch_fsdp2,
     "another layout than FSDP2, which always sums in float32"),
    (("--vocab-file", "--tokenizer-model"), lambda args: args.vocab_size is None,
     "a run without --vocab-size, which is taken as it is"),
]  # fmt: skip


def refused(args: argparse.Namespace, given: set[str]) -> list[str]:
    return [f"{flag} needs {what}" for flag, what in _idle(REFUSED, args, given)]


def notes(args: argparse.Namespace, given: set[str]) -> list[str]:
    return [f"{flag} changes nothing here: it needs {what}" for flag, what in
            _idle(NOTED, args, given)]  # fmt: skip


def overridden(argv: list[str]) -> list[str]:
    """A flag that is given again with another value: the last one counts, as everywhere."""
    seen: dict[str, str] = {}
    found = []
    for at, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        flag, equals, value = word.partition("=")
        if not equals:
            value = " ".join(argv[at + 1 : _next_flag(argv, at + 1)])
        if flag in seen and seen[flag] != value:
            found.append(f"{flag} {seen[flag]} is not used: {flag} {value} follows it")
        seen[flag] = value
    return found


def _next_flag(argv: list[str], at: int) -> int:
    while at < len(argv) and not argv[at].startswith("--"):
        at += 1
    return at


def _idle(rules: list[Rule], args: argparse.Namespace, given: set[str]) -> list[tuple[str, str]]:
    return [
        (flag, what)
        for flags, has_effect, what in rules
        for flag in flags
        if flag in given and not has_effect(args)
    ]
