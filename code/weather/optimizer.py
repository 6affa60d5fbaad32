"""Adam for the weather model, and how its rate goes up and down."""

from __future__ import annotations

import argparse

import torch
from torch import nn

from process.errors import ArgumentsError
from training.learning_rate import scaled_rate


def optimizer_of(
    args: argparse.Namespace, model: nn.Module, rate: float, device: torch.device
) -> torch.optim.Adam:
    """Where the step is recorded, its rate is a number on the device, to be changed there."""
    return torch.optim.Adam(
        model.parameters(), torch.tensor(rate, device=device) if args.cuda_graphs else rate,
        (0.9, 0.95), fused=args.fused_optimizer or None, capturable=args.cuda_graphs,
    )  # fmt: skip


def schedule_of(args: argparse.Namespace, steps: int) -> argparse.Namespace:
    """What training/learning_rate.py asks for. A batch k times as large has a gradient whose noise
    is √k smaller: that is what `sqrt` keeps in step with."""
    if args.warmup_iters >= steps:
        raise ArgumentsError([f"--warmup-iters {args.warmup_iters}: all {steps} steps would be it"])
    return argparse.Namespace(
        lr=scaled_rate(args.lr, args.lr_scaling, args.global_batch_size, args.lr_batch_size),
        min_lr=0.0, lr_decay_style="cosine",
        lr_decay_iters=steps, lr_warmup_fraction=None, lr_warmup_iters=args.warmup_iters,
        lr_warmup_init=0.0,
    )  # fmt: skip
