"""Attention and context parallelism: every sequence is cut into pieces, two per rank.

A token attends to all earlier tokens, so the last piece of a sequence is much more work than the
first. With 2 × ranks pieces, rank r takes pieces r and 2·ranks − 1 − r: one early, one late, and
all ranks have equal work:

    4 ranks, 8 pieces:   0 and 7 · 1 and 6 · 2 and 5 · 3 and 4

Only attention needs other tokens. For it, the keys and values of all pieces are gathered (in
backward, their gradients are reduce-scattered); queries stay on their ranks. With grouped-query
attention several query heads share one key and value head (a group), so communication shrinks by
the number of heads in a group.

With --cp-comm-type p2p, keys and values go round a ring instead: see ring_attention.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from parallel.layout import Group
from parallel.ring_attention import attend_in_a_ring
from parallel.tensor_parallel import ColumnParallel, GatherRows, RowParallel, Slicing, partial
from training.dropout import Masks
from training.rotary import turn


def my_positions(length: int, group: Group) -> Tensor:
    """Return the sequence positions that this rank holds, in its order."""
    if group.size == 1:
        return torch.arange(length)
    pieces = torch.arange(length).view(2 * group.size, -1)
    return torch.cat([pieces[group.index], pieces[2 * group.size - 1 - group.index]])


def in_sequence_order(rows: Tensor, group: Group) -> Tensor:
    """Put gathered rows, which are ordered by rank, into the order of the sequence."""
    # Rank r sent pieces r and 2 · ranks - 1 - r. So the first pieces of the pairs are in order (0,
    # 1, 2, …), and the second ones run backwards from the end of the sequence.
    pieces = rows.chunk(2 * group.size)
    return torch.cat(pieces[0::2] + pieces[1::2][::-1])


def gather_pieces(x: Tensor, group: Group) -> Tensor:
    """Gather [samples, positions of this rank, …] into [samples, positions, …], rank by rank."""
    if group.size == 1:
        return x
    rows: Tensor = GatherRows.apply(x.transpose(0, 1), group)
    return rows.transpose(0, 1)


def attend(query: Tensor, key: Tensor, value: Tensor, dropped: float = 0.0) -> Tensor:
    """Return causal attention of the last `query` positions over all `key` positions.

    All are [positions, samples, heads, width]; keys and values have one head per group, and the
    heads of a group are adjacent in `query`. The kernel reads a group's keys once for all its
    heads, without copies."""
    grouped = query.shape[2] != key.shape[2]
    query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
    mask = None
    if query.shape[2] < key.shape[2]:
        # Imported here because it imports the compiler, which takes a second on ranks that need it.
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(query.shape[2], key.shape[2])
    out = scaled_dot_product_attention(
        query, key, value, mask, dropped, is_causal=mask is None, enable_gqa=grouped
    )
    return out.permute(2, 0, 1, 3)


def attend_over_ranks(
    query: Tensor, key: Tensor, value: Tensor, group: Group, dropped: float = 0.0
) -> Tensor:
    """Return attention of this rank's two pieces, each over all earlier positions."""
    # Keys and values are sent together, [positions, 2, samples, groups, width]: one exchange has
    # one latency. Backward sends the same bytes the other way, as sums of gradients.
    both = GatherRows.apply(torch.stack([key, value], 1), group)
    key, value = in_sequence_order(both, group).unbind(1)
    piece = query.shape[0] // 2
    # Number of positions that each piece attends to, including its own. Together they are 2 · ranks
    # + 1 pieces on every rank, so that all have equal work.
    early = (group.index + 1) * piece
    late = (2 * group.size - group.index) * piece
    return torch.cat(
        [
            attend(query[:piece], key[:early], value[:early], dropped),
            attend(query[piece:], key[:late], value[:late], dropped),
        ]
    )


@dataclass(frozen=True)
class Heads:
    """Split of the hidden states into heads: `groups` divides `count`; if equal, each head is a
    group."""

    hidden: int
    count: int
    groups: int
    bias: bool = True
    norm: Callable[[int], nn.Module] | None = None  # norm of queries and keys, per head (QK-norm)
    ring: bool = False

    @property
    def width(self) -> int:
        return self.hidden // self.count

    @property
    def per_group(self) -> int:
        return self.count // self.groups


class Attention(nn.Module):
    """Attention layer: the tensor group shares groups of heads, the context group positions."""

    def __init__(self, heads: Heads, slicing: Slicing, context: Group, name: str) -> None:
        super().__init__()
        self.name = name
        self.heads, self.groups = heads, heads.groups // slicing.group.size
        self.context = context
        # Outputs are ordered by group: its queries, its key, its value. So a slice of the rows
        # contains whole groups, and a checkpoint fits any layout. With as many groups as heads,
        # this is query, key and value of each head.
        outputs = heads.groups * (heads.per_group + 2) * heads.width
        self.qkv = ColumnParallel(heads.hidden, outputs, slicing, heads.bias)
        self.out = RowParallel(heads.hidden, heads.hidden, slicing, heads.bias)
        self.query_norm, self.key_norm = (
            heads.norm(heads.width) if heads.norm else None for _ in range(2)
        )
        for norm in (self.query_norm, self.key_norm):
            for parameter in norm.parameters() if norm else ():
                partial(parameter)  # each tensor rank has other heads
        self.recompute = False

    def forward(self, x: Tensor, samples: int, turns: Tensor | None, masks: Masks | None) -> Tensor:
        """Apply the layer; `turns` is rotary.py's table for this rank's positions, or None."""
        each = self.heads.per_group + 2
        qkv = self.qkv(x).view(-1, samples, self.groups, each, self.heads.width)
        if self.recompute:
            mixed = torch.utils.checkpoint.checkpoint(
                self.core, qkv, turns, masks, use_reentrant=False
            )
        else:
            mixed = self.core(qkv, turns, masks)
        return self.out(mixed)

    def core(self, qkv: Tensor, turns: Tensor | None, masks: Masks | None) -> Tensor:
        query, key, value = qkv.split([self.heads.per_group, 1, 1], 3)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if turns is not None:  # before the keys are sent: a rank knows only its own positions
            query, key = turn(query, turns), turn(key, turns)
        query, key, value = (x.flatten(2, 3) for x in (query, key, value))
        dropped = masks.begin_attention(qkv, self.name) if masks else 0.0
        if self.context.size == 1:
            mixed = attend(query, key, value, dropped)
        elif self.heads.ring:
            mixed = attend_in_a_ring(query, key, value, self.context)
        else:
            mixed = attend_over_ranks(query, key, value, self.context, dropped)
        return mixed.flatten(2).flatten(0, 1)
