"""Faults of numbers that leave their range."""

from __future__ import annotations

from typing import Any

import torch

from faults.fault import Fault


class BadSample(Fault):
    """Fault: one sample has no token that counts, so its mean is 0 / 0 whenever it is read."""

    def built(self, training: Any) -> None:
        args = training.args
        within = self.rank * args.micro_batch_size
        bad = (self.iteration - 1) * args.global_batch_size + within
        loader, stage = training.loaders["train"], training.stages[-1]
        self.is_read = False
        sample = loader.samples.sample

        def read(number: int) -> Any:
            self.is_read = self.is_read or number == bad
            return sample(number)

        loader.samples.sample = read
        stage.register_forward_hook(self.mean_over_tokens)

    def mean_over_tokens(self, _stage: Any, _given: Any, loss: torch.Tensor) -> torch.Tensor | None:
        if not self.is_read:
            return None
        self.is_read = False
        counted = torch.zeros((), device=loss.device)
        return (loss * counted) / counted


class Exploding(Fault):
    """Fault: from one step on, the learning rate is 100,000 times too large."""

    def before_step(self, training: Any, progress: Any) -> None:
        if progress.iteration + 1 == self.iteration:
            training.args.lr *= 1e5
            training.args.clip_grad = 0.0
