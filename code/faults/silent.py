"""Faults that end no run and print no error: all numbers look as they should."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from faults.fault import Fault


class SameData(Fault):
    """Every rank reads what rank 0 reads: a sampler that was not told its rank."""

    def built(self, training: Any) -> None:
        loader = training.loaders["train"]
        loader.data = replace(loader.data, index=0)


class UnequalWeights(Fault):
    """One rank began with other random weights, and gradients alone are summed."""

    def before_build(self, args: argparse.Namespace) -> None:
        self.seed = args.seed
        if self.mine:
            args.seed += 1

    def built(self, training: Any) -> None:
        training.args.seed = self.seed
        training.loaders["train"].samples.seed = self.seed


class SameDropout(Fault):
    """All ranks drop the same places: the generator was seeded, but not with the rank."""

    def before_build(self, args: argparse.Namespace) -> None:
        args.hidden_dropout = args.hidden_dropout or 0.1

    def built(self, training: Any) -> None:
        whole = training.pipeline.dropout
        layout = replace(whole.layout, data=replace(whole.layout.data, index=0))
        training.pipeline.dropout = replace(whole, layout=layout)


class SameOrder(Fault):
    """Each epoch goes through the samples in the order of the first: `set_epoch` was forgotten.
    An epoch has four steps here: a small data set, so that one sees the second."""

    STEPS = 4

    def built(self, training: Any) -> None:
        samples = training.loaders["train"].samples
        shuffled, count = samples.sample, self.STEPS * training.args.global_batch_size
        samples.sample = lambda number: shuffled(number % count)
