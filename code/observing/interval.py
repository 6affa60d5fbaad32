"""The steps since the last line of the log, added up for the next one."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from checkpoints.checkpoint import Progress
from parallel.layout import Layout
from training.optimizer import StepResult


class IntervalSums:
    """A checkpoint between two lines takes the sums along: whoever goes on from it prints the line
    that a run without a break prints. Only the time is that of the own steps."""

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self.begin(Progress())

    def begin(self, progress: Progress) -> None:
        """What `progress` has not told yet comes from an earlier life of the run."""
        self.earlier = progress.untold_loss, progress.untold_nan_iterations
        self.steps, self.skipped = progress.untold_steps, progress.untold_skipped
        self.own_steps = 0
        # In float64: ranks add up other shares of it, and the printed digits must not tell which.
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.nan_iterations = torch.zeros_like(self.loss)
        self.since = time.perf_counter()

    def add(self, loss_sum: Tensor, result: StepResult) -> None:
        self.steps += 1
        self.own_steps += 1
        if result.skipped:
            self.skipped += 1
        else:
            self.loss += loss_sum
        # Counted where the loss is: to look at it here would make a GPU wait at every step.
        self.nan_iterations += ~torch.isfinite(loss_sum)

    @property
    def counted(self) -> int:
        return self.steps - self.skipped

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.since) * 1e3 / self.own_steps

    def over_ranks(self) -> tuple[float, int]:
        """The losses of all tokens, and how many steps had one that is no number. All ranks come
        here."""
        both = self.layout.sum_of_losses(torch.stack([self.loss, self.nan_iterations])).tolist()
        # Every rank counted its own: data ranks may mean the same step, but no more than all.
        bad = min(self.own_steps, math.ceil(both[1]))
        return self.earlier[0] + both[0], self.earlier[1] + bad

    def note(self, progress: Progress) -> None:
        """For a checkpoint."""
        progress.untold_loss, progress.untold_nan_iterations = self.over_ranks()
        progress.untold_steps, progress.untold_skipped = self.steps, self.skipped
