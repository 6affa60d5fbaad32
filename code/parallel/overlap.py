"""Gradient sums that run while backward computes other gradients (--overlap-grad-reduce).

Backward goes from the last layer to the first. In the last micro-batch, gradients of finished
layers are final and can be sent while earlier layers compute:

    computing      | layer 3 | layer 2 | layer 1 | layer 0 | embeddings |
    communicating            | bucket 3 | bucket 2 | bucket 1 | ...      | what is left |

A bucket holds --ddp-bucket-size numbers: layers are collected until it is full, and the surplus is
split off. Large buckets start late. Small buckets pay the latency of each message. Only matrices
are sent early: vectors are small, and embeddings come last anyway."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch.distributed as dist
from torch import Tensor

from parallel.layout import Group
from process.pace import catch_up


class GradientBuckets:
    """Buckets of one rank. Each data rank keeps `shard` numbers (ZeRO-1), or all if it is 0."""

    def __init__(self, gradients: Tensor, group: Group, bucket_size: int, shard: int) -> None:
        self.gradients, self.group, self.shard = gradients, group, shard
        self.bucket_size = bucket_size
        self.open = False  # this backward is the last of the step
        self.collected = slice(0, 0)  # finished layers in an incomplete bucket
        self.sent: list[slice] = []
        self.under_way: list[Any] = []

    def layer_done(self, span: slice) -> None:
        """Collect final gradients at `span` of the buffer, if this is the last backward.

        All ranks of the group send in the order of the layers, which is the same on all ranks."""
        if not self.open:
            return
        # The first layer is first in the buffer, and backward starts at the last, so the collected
        # range grows towards the beginning. A step's first layer starts a new range.
        if span.stop != self.collected.start:
            self.flush()
            self.collected = slice(span.stop, span.stop)
        self.collected = slice(span.start, self.collected.stop)
        if self.collected.stop - self.collected.start >= self.bucket_size:
            self.flush()

    def flush(self) -> None:
        begin, end = self.collected.start, self.collected.stop
        if begin < end:
            self.send(slice(begin, end))
            self.sent.append(slice(begin, end))
        self.collected = slice(begin, begin)

    def send(self, span: slice) -> None:
        catch_up()  # slot that emulates a device: do not send before its pace allows
        for at in range(span.start, span.stop, self.bucket_size):
            piece = slice(at, min(at + self.bucket_size, span.stop))
            for part, owner in self.by_owner(piece):
                values, group = self.gradients[part], self.group.handle
                if owner is None:
                    work = dist.all_reduce(values, group=group, async_op=True)
                else:
                    work = dist.reduce(values, owner, group=group, async_op=True)
                self.under_way.append(work)

    def by_owner(self, span: slice) -> Iterable[tuple[slice, int | None]]:
        """Split a range by shard: with ZeRO-1 one rank needs a sum, and a bucket may cross
        shards."""
        if not self.shard:
            yield span, None
            return
        begin = span.start
        while begin < span.stop:
            number = begin // self.shard
            end = min(span.stop, (number + 1) * self.shard)
            yield slice(begin, end), self.group.ranks[number]
            begin = end

    def finish(self) -> None:
        """Send the rest of the buffer, and wait for everything."""
        self.flush()
        # The ranges between the sent buckets, in the same order on every rank.
        at = 0
        for done in [
            *sorted(self.sent, key=lambda s: s.start),
            slice(self.gradients.numel(), None),
        ]:
            if at < done.start:
                self.send(slice(at, done.start))
            at = done.stop
        for work in self.under_way:
            work.wait()
        self.open, self.sent, self.under_way = False, [], []
        self.collected = slice(0, 0)
