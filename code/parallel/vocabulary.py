"""Embedding and loss, the two ends of the model, with the vocabulary split over tensor ranks.

Each rank holds the rows of the embedding matrix for a range of token numbers. The look-up is local:
tokens of other ranks give zeros, and a sum over the group completes the rows. At the other end
every rank computes the logits of its own range. The softmax over all logits needs two numbers per
token from each rank; logits are never sent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from parallel.layout import Group
from parallel.tensor_parallel import Slicing, all_gather, enter, leave, sliced


class _LookUp(Function):
    """Look-up of matrix rows; backward adds dY to the same rows of its gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, tokens: Tensor, outside: Tensor | None) -> Tensor:
        ctx.weight, ctx.outside = weight, outside
        ctx.save_for_backward(tokens)
        rows = weight.index_select(0, tokens)
        return rows if outside is None else rows.masked_fill_(outside, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        (tokens,) = ctx.saved_tensors
        if ctx.outside is not None:
            grad = grad.masked_fill(ctx.outside, 0)
        ctx.weight.main_grad.index_add_(0, tokens, grad.to(ctx.weight.main_grad.dtype))
        return None, None, None


class VocabularyEmbedding(nn.Module):
    """Embedding: token numbers [rows] → [rows, hidden], or this rank's rows with sequence
    parallelism.

    With tied embeddings, the loss uses the same matrix for its logits."""

    def __init__(self, vocabulary: int, hidden: int, slicing: Slicing) -> None:
        super().__init__()
        self.slicing, group = slicing, slicing.group
        self.rows = vocabulary // group.size
        self.weight = sliced(nn.Parameter(torch.empty(self.rows, hidden)), 0, group)

    def forward(self, tokens: Tensor) -> Tensor:
        local, outside = tokens, None
        group = self.slicing.group
        if group.size > 1:
            # Tokens of other ranks look up row 0 or the last one, and are then set to zero.
            local = tokens - group.index * self.rows
            outside = ((local < 0) | (local >= self.rows)).unsqueeze(1)
            local = local.clamp(0, self.rows - 1)
        if self.slicing.work.returned:
            rows = nn.functional.embedding(local, self.weight)
            rows = rows if outside is None else rows.masked_fill(outside, 0)
        else:
            rows = _LookUp.apply(self.weight, local, outside)
        return leave(rows, self.slicing)


def at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _Loss(Function):
    """Loss of each row of hidden states: −log softmax(X Wᵀ)[label].

    The logits are by far the largest activation, so there is one copy: the softmax overwrites them,
    and backward overwrites the softmax. dlogits = (softmax − 1[label]) · dloss; in float32 the
    factor dloss is applied to the small matrices X and dX instead."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, labels: Tensor, slicing: Slicing, rows: int | None
    ) -> Tensor:
        group = slicing.group
        logits = at_least_float32(x @ weight.t())
        if rows is not None:
            mine = min(max(rows - group.index * weight.shape[0], 0), weight.shape[0])
            # Padding gets no probability. Not −∞, which would give 0 · ∞ on a rank with padding
            # only.
            logits[:, mine:] = torch.finfo(logits.dtype).min
        inside, local = None, labels.unsqueeze(1)
        if group.size > 1:
            local = local - group.index * weight.shape[0]
            inside = (local >= 0) & (local < weight.shape[0])
            local = local.clamp(0, weight.shape[0] - 1)
        # Read the label's logit before the softmax overwrites it. The log of the sum follows from
        # the largest probability, exp(largest − log_sum).
        target = logits.gather(1, local)
        largest = logits.amax(1, keepdim=True)
        softmax = torch.softmax(logits, 1, out=logits)
        log_sum = largest - softmax.amax(1, keepdim=True).log()
        if inside is not None:
            log_sum, target = _over_the_group(softmax, log_sum, target * inside, group)
        ctx.save_for_backward(x, softmax, local, inside)
        ctx.weight, ctx.work = weight, slicing.work
        return log_sum.squeeze(1) - target.squeeze(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, softmax, local, inside = ctx.saved_tensors
        weight = ctx.weight
        factor = grad.unsqueeze(1)  # [rows, 1]; the logits are [rows, vocabulary / tensor ranks]
        one = -torch.ones_like(local, dtype=softmax.dtype) if inside is None else -inside.to(grad)
        dlogits = softmax.scatter_add_(1, local, one)
        if dlogits.dtype == x.dtype:
            dx, grad_weight = (dlogits @ weight) * factor, ctx.work.add(weight, dlogits, x * factor)
        else:  # half precision: scale first, or small probabilities underflow
            dlogits = dlogits.mul_(factor).to(x.dtype)
            dx, grad_weight = dlogits @ weight, ctx.work.add(weight, dlogits, x)
        return dx, grad_weight, None, None, None


def _over_the_group(
    softmax: Tensor, log_sum: Tensor, target: Tensor, group: Group
) -> tuple[Tensor, Tensor]:
    """Combine the softmaxes of all ranks by one exchange of two numbers per row.

    In float32 these are 8 bytes per row and rank; the logits would be 4 bytes for each token."""
    # log Σ exp over all logits = log Σ exp(log_sum of each rank); only one rank has a target ≠ 0.
    # [1, rows, 2] of each rank → [ranks, rows, 2].
    mine = torch.cat([log_sum, target], 1).unsqueeze(0)
    sums, targets = all_gather(mine, group).unbind(2)
    total = torch.logsumexp(sums, 0).unsqueeze(1)
    softmax.mul_((log_sum - total).exp_())
    return total, targets.sum(0).unsqueeze(1)


def vocabulary_loss(
    x: Tensor, weight: Tensor, labels: Tensor, slicing: Slicing, rows: int | None = None
) -> Tensor:
    """Return the loss; `rows` limits the softmax if a resumed model's matrix has more (padding)."""
    if slicing.work.returned and slicing.group.size == 1:
        logits = at_least_float32(x @ weight.t())[:, :rows]
        return nn.functional.cross_entropy(logits, labels, reduction="none")
    return _Loss.apply(enter(x, slicing), weight, labels, slicing, rows)
