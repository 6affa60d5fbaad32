"""Dropout, and the ranks that draw the same mask.

A mask must be the same when backward recomputes a layer, when a run continues from a checkpoint,
and on all ranks with copies of the same rows. It must differ between micro-batches, layers and
places. So no single generator serves the whole training: each mask has its own seed, derived from
its purpose:

    the same on ranks with       the same rows: tensor ranks, outside the matrices
    different on ranks with      other samples; other positions (context, sequence parallelism);
                                 other heads (attention probabilities, split over tensor ranks)

The seed does not depend on how samples are distributed over data ranks, or layers over a pipeline:
such layouts train the same model with dropout, too."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import dropout

from parallel.layout import Layout


@dataclass(frozen=True)
class Masks:
    """Masks of one micro-batch on this rank. None means a pass without dropout."""

    hidden: float  # dropped share of the hidden states
    attention: float  # dropped share of the attention probabilities
    seed: int
    sample: int  # the number of the micro-batch's first sample in the run
    context: int  # index of this rank in its context group
    rows: int  # index of this rank among the ranks with other rows of the same positions
    heads: int  # index of this rank among the ranks with other heads

    def of_hidden(self, x: Tensor, place: str) -> Tensor:
        """Set a share of the numbers in each row to 0 and scale up the rest, so that the mean
        stays."""
        if not self.hidden:
            return x
        self._begin(x, f"{place}/rows {self.rows}")
        return dropout(x, self.hidden)

    def begin_attention(self, x: Tensor, place: str) -> float:
        """Seed the generator from which the kernel draws; return the dropped share."""
        if self.attention:
            self._begin(x, f"{place}/heads {self.heads}")
        return self.attention

    def _begin(self, x: Tensor, what: str) -> None:
        """Seed this device's generator, from which its kernels draw."""
        text = f"{self.seed}/{self.sample}/context {self.context}/{what}"
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
        if x.device.type == "cpu":
            torch.default_generator.manual_seed(number)
        else:
            torch.get_device_module(x.device).default_generators[x.device.index].manual_seed(number)


@dataclass(frozen=True)
class Dropout:
    """Factory of the masks of each micro-batch."""

    args: argparse.Namespace
    layout: Layout

    def masks(self, first_sample: int, micro_batch: int) -> Masks | None:
        """Return the masks; `first_sample` is the step's first sample over all data ranks."""
        args, layout = self.args, self.layout
        if not (args.hidden_dropout or args.attention_dropout):
            return None
        number = micro_batch * layout.data.size + layout.data.index
        return Masks(
            args.hidden_dropout,
            args.attention_dropout,
            args.seed,
            first_sample + number * args.micro_batch_size,
            layout.context.index,
            layout.tensor.index if args.sequence_parallel else 0,
            layout.tensor.index,
        )
