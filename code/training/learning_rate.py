"""Learning rate of every step, as in Megatron-LM's scheduler.

    warm-up    from --lr-warmup-init linearly up to --lr
    decay      from --lr down to --min-lr, until --lr-decay-iters steps are done
    after it   --min-lr

The rate depends on the number of completed steps, so the first step of a warm-up from 0 changes
nothing. A log line shows the rate of the next step. Steps that were skipped for an overflow do not
count."""

from __future__ import annotations

import argparse
import math

STYLES = ("constant", "linear", "cosine", "WSD")
WSD_STYLES = ("exponential", "linear", "cosine", "minus_sqrt")
# Exponent of the batch size ratio by which the rate is multiplied.
BATCH_SCALING = {"none": 0.0, "sqrt": 0.5, "linear": 1.0}


def scaled_rate(rate: float, scaling: str, batch: int, found_for: int) -> float:
    """Return the rate for this batch size, if `rate` was found for another."""
    return float(rate * (batch / found_for) ** BATCH_SCALING[scaling])


def warmup_steps(args: argparse.Namespace) -> float:
    if args.lr_warmup_fraction is None:
        return float(args.lr_warmup_iters)
    return float(args.lr_warmup_fraction * args.lr_decay_iters)


def learning_rate(done: int, args: argparse.Namespace) -> float:
    """Return the rate of the step after `done` steps."""
    warmup, highest = warmup_steps(args), float(args.lr)
    if warmup > 0 and done <= warmup:
        return float(args.lr_warmup_init + (highest - args.lr_warmup_init) * done / warmup)
    if args.lr_decay_style == "constant":
        return highest
    if done > args.lr_decay_iters:
        return float(args.min_lr)
    return float(args.min_lr + _share_left(done, warmup, args) * (highest - args.min_lr))


def _share_left(done: int, warmup: float, args: argparse.Namespace) -> float:
    """Return the fraction of the range from --min-lr to --lr: 1 before the decay, 0 after it."""
    if args.lr_decay_style != "WSD":
        return left(args.lr_decay_style, (done - warmup) / (args.lr_decay_iters - warmup))
    # Warm-up, stable, decay: the rate stays at its maximum, so that the length of the training can
    # remain open; a short decay from any checkpoint finishes a model.
    begins = args.lr_decay_iters - args.lr_wsd_decay_iters
    if done <= begins:
        return 1.0
    return left(args.lr_wsd_decay_style, (done - begins) / args.lr_wsd_decay_iters)


def left(style: str, progress: float) -> float:
    """Return the remaining height at this fraction of the decay: 1 at 0, 0 at 1."""
    if style == "linear":
        return 1 - progress
    if style == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    if style == "exponential":
        return 2 * 0.5**progress - 1  # halving, stretched so that it ends at 0
    return 1 - math.sqrt(progress)
