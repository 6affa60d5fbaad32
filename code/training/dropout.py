"""Dropout, and who draws the same mask.

A mask must come out the same when a layer is computed again in backward, when a run goes on from a
checkpoint, and on all ranks that hold copies of the same rows; it must differ between
micro-batches, layers and places. So no generator runs through the training: each mask has a seed of
its own, made of what the mask is for.

    the same on ranks that       hold the same rows: tensor ranks, outside the matrices
    another on ranks that hold   other samples; other positions (context, sequence parallelism);
                                 other heads (attention probabilities, cut over tensor ranks)

Nothing in the seed depends on how samples are shared over data ranks, or layers over a pipeline:
such layouts train the same model with dropout, too.
"""

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
    """Masks of one micro-batch on this rank. None stands for a pass without dropout."""

    hidden: float  # share of the hidden states that is dropped
    attention: float  # share of the attention probabilities
    seed: int
    sample: int  # the number of the micro-batch's first sample in the run
    context: int  # of this rank
    rows: int  # of this rank among those that hold other rows of the same positions
    heads: int  # of this rank among those that hold other heads

    def of_hidden(self, x: Tensor, place: str) -> Tensor:
        """Some numbers of each row become 0; the others grow, so that the mean stays."""
        if not self.hidden:
            return x
        self._begin(x, f"{place}/rows {self.rows}")
        return dropout(x, self.hidden)

    def begin_attention(self, x: Tensor, place: str) -> float:
        """The kernel draws by itself, from here on; returns the share."""
        if self.attention:
            self._begin(x, f"{place}/heads {self.heads}")
        return self.attention

    def _begin(self, x: Tensor, what: str) -> None:
        """Sets the generator that kernels of this device take their numbers from."""
        text = f"{self.seed}/{self.sample}/context {self.context}/{what}"
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
        if x.device.type == "cpu":
            torch.default_generator.manual_seed(number)
        else:
            torch.get_device_module(x.device).default_generators[x.device.index].manual_seed(number)


@dataclass(frozen=True)
class Dropout:
    """Makes the masks of each micro-batch."""

    args: argparse.Namespace
    layout: Layout

    def masks(self, first_sample: int, micro_batch: int) -> Masks | None:
        """`first_sample` is that of the step, over all data ranks."""
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
