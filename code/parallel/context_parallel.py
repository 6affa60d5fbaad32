"""Attention, and context parallelism: every sequence is cut into pieces, two per rank.

A token looks back at all earlier ones, so the last piece of a sequence is much more work than the
first. With 2 × ranks pieces, rank r takes pieces r and 2·ranks − 1 − r: one early, one late, and
all ranks have the same to do:

    4 ranks, 8 pieces:   0 and 7 · 1 and 6 · 2 and 5 · 3 and 4

Everything but attention works on each token alone and notices nothing. For attention, the keys and
values of all pieces are gathered (backward: their gradients are summed and scattered); queries
stay where they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from parallel.layout import Group
from parallel.tensor_parallel import ColumnParallel, GatherRows, RowParallel, Slicing


def my_positions(length: int, group: Group) -> Tensor:
    """The positions of the sequence that this rank holds, in the order in which it holds them."""
    if group.size == 1:
        return torch.arange(length)
    pieces = torch.arange(length).view(2 * group.size, -1)
    return torch.cat([pieces[group.index], pieces[2 * group.size - 1 - group.index]])


def in_sequence_order(rows: Tensor, group: Group) -> Tensor:
    """Gathered rows lie rank by rank; this puts their pieces into the order of the sequence."""
    pieces = rows.chunk(2 * group.size)
    return torch.cat(pieces[0::2] + pieces[1::2][::-1])


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of the last `query` positions over all `key` positions.

    All are [positions, samples, heads, width].
    """
    query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
    missing = key.shape[2] - query.shape[2]
    mask = causal_lower_right(query.shape[2], key.shape[2]) if missing else None
    out = scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)
    return out.permute(2, 0, 1, 3)


def attend_over_ranks(query: Tensor, key: Tensor, value: Tensor, group: Group) -> Tensor:
    """Each of this rank's two pieces looks back over the whole sequence before it."""
    both = GatherRows.apply(torch.stack([key, value], 1), group)
    key, value = in_sequence_order(both, group).unbind(1)
    piece = query.shape[0] // 2
    early = (group.index + 1) * piece
    late = (2 * group.size - group.index) * piece
    return torch.cat(
        [
            attend(query[:piece], key[:early], value[:early]),
            attend(query[piece:], key[:late], value[:late]),
        ]
    )


class Attention(nn.Module):
    """Heads are shared over the tensor group, positions over the context group."""

    def __init__(self, hidden: int, heads: int, slicing: Slicing, context: Group) -> None:
        super().__init__()
        self.heads, self.width = heads // slicing.group.size, hidden // heads
        self.context = context
        # Outputs are ordered head by head (query, key, value of each): a slice is whole heads.
        self.qkv = ColumnParallel(hidden, 3 * hidden, slicing)
        self.out = RowParallel(hidden, hidden, slicing)
        self.recompute = False

    def forward(self, x: Tensor, samples: int) -> Tensor:
        qkv = self.qkv(x).view(-1, samples, self.heads, 3, self.width)
        if self.recompute:
            mixed = torch.utils.checkpoint.checkpoint(self.core, qkv, use_reentrant=False)
        else:
            mixed = self.core(qkv)
        return self.out(mixed)

    def core(self, qkv: Tensor) -> Tensor:
        query, key, value = qkv.unbind(3)
        if self.context.size == 1:
            mixed = attend(query, key, value)
        else:
            mixed = attend_over_ranks(query, key, value, self.context)
        return mixed.reshape(-1, self.heads * self.width)
