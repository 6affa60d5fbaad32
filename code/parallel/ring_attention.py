"""Ring attention: keys and values go round the context group, one rank further in each step
(--cp-comm-type p2p). No rank ever holds them for the whole sequence, as with the gather.

A rank keeps its queries. In step s it has the keys and values of the rank s places before it. It
computes the attention of its queries over them while it sends them on. The softmax needs the sum
over all keys, which arrive in parts. So each part is kept with the logarithm of its sum, and two
parts are combined:

    log_sum = log(exp(log_sum₁) + exp(log_sum₂))
    out     = out₁ · exp(log_sum₁ − log_sum) + out₂ · exp(log_sum₂ − log_sum)

Each rank has an early and a late piece of the sequence, and all have equal work in every step:

    own keys             causal, as if the two pieces were adjacent
    of an earlier rank   all queries attend to its early piece, none to its late one
    of a later rank      only the late queries attend, and to both pieces

Backward recomputes each part, since `log_sum` and the products give the probabilities. Keys and
values go round again, with their accumulated gradients, which return to their own ranks."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from parallel.layout import Group
from process.pace import communicating

ALL = slice(None)


def attend_in_a_ring(query: Tensor, key: Tensor, value: Tensor, group: Group) -> Tensor:
    """Compute the same as `attend_over_ranks`: [positions here, samples, heads or groups,
    width]."""
    positions, samples, heads, width = query.shape
    groups = key.shape[2]
    # [samples, groups, heads of a group, positions, width]; a group's heads share its keys.
    query = query.view(positions, samples, groups, heads // groups, width).permute(1, 2, 3, 0, 4)
    key, value = (x.permute(1, 2, 0, 3).unsqueeze(2) for x in (key, value))
    out: Tensor = _Ring.apply(query, key, value, group)
    return out.permute(3, 0, 1, 2, 4).reshape(positions, samples, heads, width)


class _Ring(Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: Group) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        out = torch.zeros(query.shape, dtype=wide, device=query.device)
        log_sum = torch.full((*query.shape[:-1], 1), -torch.inf, dtype=wide, device=query.device)
        held = torch.stack([key, value])
        for step in range(group.size):
            moving = Shift(held, group) if step < group.size - 1 else None
            mine, theirs, causal = visible(step, group, query.shape[3])
            q, (k, v) = query[..., mine, :].to(wide), held[..., theirs, :].to(wide)
            products = scores(q, k, causal)
            part = products.logsumexp(-1, keepdim=True)
            both = torch.logaddexp(log_sum[..., mine, :], part)
            before = out[..., mine, :] * (log_sum[..., mine, :] - both).exp()
            out[..., mine, :] = before + (products - both).exp() @ v
            log_sum[..., mine, :] = both
            held = moving.arrived() if moving else held
        ctx.save_for_backward(query, key, value, out, log_sum)
        ctx.group = group
        return out.to(query.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, log_sum = ctx.saved_tensors
        group, wide = ctx.group, out.dtype
        grad = grad.to(wide)
        # In a softmax's gradient: Σ probability · its gradient, one number for each row.
        common = (grad * out).sum(-1, keepdim=True)
        grad_query = torch.zeros_like(out)
        held = torch.stack([key, value])
        collected = torch.zeros(held.shape, dtype=wide, device=held.device)
        for step in range(group.size):
            moving = Shift(held, group) if step < group.size - 1 else None
            mine, theirs, causal = visible(step, group, query.shape[3])
            q, (k, v) = query[..., mine, :].to(wide), held[..., theirs, :].to(wide)
            dout = grad[..., mine, :]
            p = (scores(q, k, causal) - log_sum[..., mine, :]).exp()
            ds = p * (dout @ v.mT - common[..., mine, :]) / math.sqrt(q.shape[-1])
            grad_query[..., mine, :] += ds @ k
            # The heads of a group share its keys: their gradients are added.
            found = torch.stack([ds.mT @ q, p.mT @ dout]).sum(3, keepdim=True)
            collected[..., theirs, :] += found
            collected = Shift(collected, group).arrived()  # after the last step, each is home again
            held = moving.arrived() if moving else held
        grad_key, grad_value = collected.to(key.dtype)
        return grad_query.to(query.dtype), grad_key, grad_value, None


def visible(step: int, group: Group, positions: int) -> tuple[slice, slice, bool]:
    """Return which queries attend to which keys in this step, and whether causally."""
    if step == 0:
        return ALL, ALL, True
    half = positions // 2
    source = (group.index - step) % group.size
    if source < group.index:
        return ALL, slice(0, half), False
    return slice(half, None), ALL, False


def scores(query: Tensor, key: Tensor, causal: bool) -> Tensor:
    products = query @ key.mT / math.sqrt(query.shape[-1])
    if not causal:
        return products
    later = torch.ones(products.shape[-2:], dtype=torch.bool, device=products.device).triu(1)
    return products.masked_fill(later, -torch.inf)


class Shift:
    """Tensor that goes to the next rank of the ring while the previous rank's tensor arrives."""

    def __init__(self, x: Tensor, group: Group) -> None:
        self.x, self.box = (
            x.contiguous(),
            torch.empty_like(x, memory_format=torch.contiguous_format),
        )
        following = group.ranks[(group.index + 1) % group.size]
        before = group.ranks[group.index - 1]
        with communicating("communication: ring"):
            self.works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, self.x, following, group.handle),
                dist.P2POp(dist.irecv, self.box, before, group.handle),
            ])  # fmt: skip

    def arrived(self) -> Tensor:
        with communicating("communication: ring"):
            for work in self.works:
                work.wait()
        return self.box
