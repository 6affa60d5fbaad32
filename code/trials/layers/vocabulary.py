"""Test 07.3: `VocabularyLoss` is the cross entropy of logits that are divided over the ranks.

loss = VocabularyLoss.apply(logits, targets)      [tokens, columns of this rank] and [tokens]
loss.backward(dy)

The logits of a token lie around its own offset, up to a thousand, so exponentials of plain logits
overflow or vanish. The test counts the numbers that a rank exchanges for each token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trials.ranks import Ranks

TOKENS, COLUMNS, OFFSET, NEEDED = 24, 40, 500, 3


def test(VocabularyLoss: Any, ranks: Ranks) -> None:
    size, here = ranks.size, slice(ranks.rank * COLUMNS, (ranks.rank + 1) * COLUMNS)
    logits, offsets, drawn, dy = ranks.draw(
        (TOKENS, size * COLUMNS), (TOKENS, 1), (TOKENS,), (TOKENS,)
    )
    logits = 3 * logits + OFFSET * offsets
    targets = (1e6 * drawn).long() % (size * COLUMNS)
    mine = logits[:, here].clone().requires_grad_()
    loss = ranks.run("forward", VocabularyLoss.apply, mine, targets.clone())
    losses = likely_losses(logits, targets, size, ranks.rank)
    ranks.same("the loss", loss, losses["right"], mistakes=losses)
    numbers = sum(one["numbers"] for one in ranks.calls.made) / TOKENS
    ranks.holds("sent", numbers <= NEEDED * size, numbers=numbers, columns=COLUMNS)
    ranks.run("backward", loss.backward, dy.clone())
    ranks.same("the gradient", mine.grad, gradient(logits, targets, dy)[:, here], mistakes={
        name: one[:, here] for name, one in likely_gradients(logits, targets, dy).items()
    })  # fmt: skip


def likely_losses(logits: Tensor, targets: Tensor, size: int, rank: int) -> dict[str, Tensor]:
    """Return the losses, and what likely mistakes make of them."""
    pieces = logits.chunk(size, 1)
    log_sum, wanted = logits.logsumexp(1), at(logits, targets)
    total = torch.stack([(one - one.amax(1, keepdim=True)).exp().sum(1) for one in pieces]).sum(0)
    columns = torch.arange(size)[:, None] * COLUMNS
    clamped = (targets - columns).clamp(0, COLUMNS - 1)  # on each rank
    everywhere = torch.stack([at(*one) for one in zip(pieces, clamped, strict=True)])
    is_mine = targets // COLUMNS == rank
    return {
        "right": log_sum - wanted,
        "own sum": pieces[rank].logsumexp(1) - wanted,
        "own largest": pieces[rank].amax(1) + total.log() - wanted,
        "own target": log_sum - torch.where(is_mine, wanted, 0),
        "all targets": log_sum - everywhere.sum(0),
    }  # fmt: skip


def at(logits: Tensor, targets: Tensor) -> Tensor:
    return logits.gather(1, targets[:, None])[:, 0]


def gradient(logits: Tensor, targets: Tensor, dy: Tensor) -> Tensor:
    one_hot = torch.nn.functional.one_hot(targets, logits.shape[1])
    return (logits.softmax(1) - one_hot) * dy[:, None]


def likely_gradients(logits: Tensor, targets: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """Return what likely mistakes make of the gradient of all logits."""
    right, probabilities = gradient(logits, targets, dy), logits.softmax(1)
    clamped = torch.zeros_like(logits)
    for first in range(0, logits.shape[1], COLUMNS):
        column = first + (targets - first).clamp(0, COLUMNS - 1)
        clamped.scatter_(1, column[:, None], 1.0)
    own = torch.cat([one.softmax(1) for one in logits.split(COLUMNS, 1)], 1)
    return {
        "no target": probabilities * dy[:, None],
        "all targets": (probabilities - clamped) * dy[:, None],
        "without dy": gradient(logits, targets, torch.ones_like(dy)),
        "own softmax": right + (own - probabilities) * dy[:, None],
    }  # fmt: skip
