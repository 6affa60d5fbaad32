"""Check that stops a run when its numbers are no longer finite."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from process.errors import DivergedError
from training.optimizer import StepResult

# Consecutive overflows at the smallest loss scale before the run ends.
PATIENCE = 10


class FiniteCheck:
    """Check of this rank's loss and of the norm of the whole gradient.

    A dynamic loss scale finds its value through non-finite gradients: as in Megatron-LM, they are
    not an error. But when the scale is at its minimum, they do not disappear."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        dynamic = args.fp16 and args.loss_scale is None
        self.scaled = dynamic and not args.no_check_for_nan_in_loss_and_grad
        self.least, self.stuck = args.min_loss_scale, 0  # steps in a row
        self.wanted = not (args.no_check_for_nan_in_loss_and_grad or dynamic)
        # A GPU would have to wait for each check, so it is checked when the loss is read anyway.
        self.every = 1 if device.type == "cpu" else args.log_interval
        self.since: Tensor | None = None  # zeros, or nan after a value that was not finite

    def step(self, iteration: int, loss_sum: Tensor, result: StepResult) -> None:
        """Add 0 × value: 0 for a finite value, otherwise nan, which stays in every sum."""
        self.stuck = self.stuck + 1 if result.stuck else 0
        if self.stuck == PATIENCE:
            self.end(iteration)
        if not self.wanted:
            return
        seen = torch.stack([(value * 0).float() for value in (loss_sum, result.norm)])
        self.since = seen if self.since is None else self.since + seen
        if iteration % self.every == 0:
            self.look(iteration)

    def end(self, iteration: int) -> None:
        """Check at the end of the run, or after too many overflows. A single overflow may come from
        a rare sample, and a continued run shows this."""
        self.look(iteration)
        if self.scaled and self.stuck:
            steps = "step was" if self.stuck == 1 else f"{self.stuck} steps were"
            raise DivergedError(
                f"iteration {iteration}: loss scale already at minimum ({self.least:g}), and the "
                f"last {steps} skipped because gradients still overflowed. Lower --lr or "
                "warm up longer (--lr-warmup-fraction), or train with --bf16; continue from the "
                "last checkpoint with --load"
            )

    def look(self, iteration: int) -> None:
        """Raise an error if a number is not finite; called also before each checkpoint."""
        if self.since is None:
            return
        loss, norm = (value != 0 for value in self.since.tolist())  # nan is unequal to all
        self.since = None
        if loss or norm:
            what = "the loss is nan or inf" if loss else "found nan or inf in the gradients"
            within = f" or up to {self.every - 1} before" if self.every > 1 else ""
            raise DivergedError(
                f"iteration {iteration}{within}: {what}. Lower --lr or warm up longer "
                "(--lr-warmup-fraction), clip (--clip-grad 1), or lower a fixed --loss-scale; "
                "continue from the last checkpoint with --load. "
                "--no-check-for-nan-in-loss-and-grad ignores this"
            )
