"""Faults that neither end the run nor print an error. All numbers look plausible."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from faults.fault import Fault


class SameData(Fault):
    """Fault: every rank reads rank 0's samples, as if the sampler did not get the rank."""

    def built(self, training: Any) -> None:
        loader = training.loaders["train"]
        loader.data = replace(loader.data, index=0)


class UnequalWeights(Fault):
    """Fault: one rank starts from different random weights, and only gradients are summed."""

    def before_build(self, args: argparse.Namespace) -> None:
        self.seed = args.seed
        if self.mine:
            args.seed += 1

    def built(self, training: Any) -> None:
        training.args.seed = self.seed
        training.loaders["train"].samples.seed = self.seed


class SameDropout(Fault):
    """Fault: all ranks drop the same elements, because the generator's seed lacks the rank."""

    def before_build(self, args: argparse.Namespace) -> None:
        args.hidden_dropout = args.hidden_dropout or 0.1

    def built(self, training: Any) -> None:
        whole = training.pipeline.dropout
        layout = replace(whole.layout, data=replace(whole.layout.data, index=0))
        training.pipeline.dropout = replace(whole, layout=layout)


class SameOrder(Fault):
    """Fault: each epoch repeats the first epoch's order, because `set_epoch` was not called. An
    epoch has only four steps here, so that the second one is soon visible."""

    STEPS = 4

    def built(self, training: Any) -> None:
        samples = training.loaders["train"].samples
        shuffled, count = samples.sample, self.STEPS * training.args.global_batch_size
        samples.sample = lambda number: shuffled(number % count)
