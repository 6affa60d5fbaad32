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
    one_hot = torch.nn.functional.one_hot(targets, logits.shape[1])
    gradient = (logits.softmax(1) - one_hot) * dy[:, None]
    ranks.same("the gradient", mine.grad, gradient[:, here])


def likely_losses(logits: Tensor, targets: Tensor, size: int, rank: int) -> dict[str, Tensor]:
    """Return the losses, and what likely mistakes make of them."""
    pieces = logits.chunk(size, 1)
    log_sum, wanted = logits.logsumexp(1), logits.gather(1, targets[:, None])[:, 0]
    total = torch.stack([(one - one.amax(1, keepdim=True)).exp().sum(1) for one in pieces]).sum(0)
    is_mine = targets // COLUMNS == rank
    return {
        "right": log_sum - wanted,
        "own sum": pieces[rank].logsumexp(1) - wanted,
        "own largest": pieces[rank].amax(1) + total.log() - wanted,
        "own target": log_sum - torch.where(is_mine, wanted, 0),
    }  # fmt: skip
