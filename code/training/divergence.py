"""Stops a training whose numbers are no longer finite: nothing that follows would mean anything."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from process.errors import DivergedError
from training.optimizer import StepResult

# Steps in a row that overflow at the smallest loss scale, before the run ends.
PATIENCE = 10


class FiniteCheck:
    """Looks at the loss of this rank and at the norm of the whole gradient.

    Where the loss scale is dynamic, gradients that are not finite are how it finds its value: as in
    Megatron-LM, they are no error. But once the scale is at its minimum nothing will mend them.
    """

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        dynamic = args.fp16 and args.loss_scale is None
        self.scaled = dynamic and not args.no_check_for_nan_in_loss_and_grad
        self.least, self.stuck = args.min_loss_scale, 0  # steps in a row
        self.wanted = not (args.no_check_for_nan_in_loss_and_grad or dynamic)
        # A GPU would have to wait for each answer, so it is asked when it is asked for the loss.
        self.every = 1 if device.type == "cpu" else args.log_interval
        self.since: Tensor | None = None  # zeros, nan where something was not finite

    def step(self, iteration: int, loss_sum: Tensor, result: StepResult) -> None:
        """Times 0, what is finite becomes 0 and all else nan, which no sum loses again."""
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
        """Checks at the end of the run, or of hope: one overflow may have been a rare sample,
        and a run that goes on finds out."""
        self.look(iteration)
        if self.scaled and self.stuck:
            steps = "step was" if self.stuck == 1 else f"{self.stuck} steps were"
            raise DivergedError(
                f"iteration {iteration}: loss scale already at minimum ({self.least:g}), and the "
                f"last {steps} skipped because gradients overflowed all the same. Lower --lr or "
                "warm up longer (--lr-warmup-fraction), train with --bf16; go on from the last "
                "checkpoint with --load"
            )

    def look(self, iteration: int) -> None:
        """Raises if a number is not finite; also before a checkpoint, so that none is broken."""
        if self.since is None:
            return
        loss, norm = (value != 0 for value in self.since.tolist())  # nan is unequal to all
        self.since = None
        if loss or norm:
            what = "the loss is nan or inf" if loss else "found nan or inf in the gradients"
            within = f" or up to {self.every - 1} before" if self.every > 1 else ""
            raise DivergedError(
                f"iteration {iteration}{within}: {what}. Lower --lr or warm up longer "
                "(--lr-warmup-fraction), clip (--clip-grad 1), lower a fixed --loss-scale; go on "
                "from the last checkpoint with --load. --no-check-for-nan-in-loss-and-grad trains "
                "on"
            )
