"""Test 13.5: `train_step(stage, batch, loss_of)` is one step of a pipeline, on each of its stages.

stage(x)               the layer of this rank
batch                  micro-batches (x, target), the same on all ranks
loss_of(y, target)     the mean loss of one micro-batch, for the last stage

It returns the mean loss of all micro-batches on the last stage, and leaves their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.memory import Waiting
from trials.ranks import Ranks

ROWS, WIDTH = 6, 8
MICRO_BATCHES = (1, 3, 6)
# For each micro-batch, in bytes: a message may announce its shape, and the loss may be exchanged.
SPARE = 64
Batch = list[tuple[Tensor, Tensor]]


class CountedStage(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight, self.waiting = nn.Parameter(weight.clone()), Waiting()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x @ self.weight)
        self.waiting.note(x, y)
        return y


def test(train_step: Any, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    for count in MICRO_BATCHES:
        weights = [one.requires_grad_() for one in ranks.draw(*[(WIDTH, WIDTH)] * size)]
        drawn = ranks.draw(*[(ROWS, WIDTH)] * 2 * count)
        batch = list(zip(drawn[::2], drawn[1::2], strict=True))
        given = [(x.clone(), target.clone()) for x, target in batch]
        stage = CountedStage(weights[rank].detach())
        case = f"{count} micro-batch{'es' * (count > 1)}"
        loss = ranks.run(case, train_step, stage, given, nn.functional.mse_loss)
        ranks.holds("own buffers", not stage.waiting.share_a_buffer)
        ranks.agree()  # otherwise a wrong gradient would show first on a stage before
        losses = likely_losses(batch, weights, rank)
        gradients = {
            name: torch.autograd.grad(one, weights[rank], retain_graph=True)[0]
            for name, one in losses.items()
        }
        ranks.same("the gradient", stage.weight.grad, gradients["right"], mistakes=gradients)
        if rank == size - 1:
            value = loss if loss is None else torch.as_tensor(loss, dtype=torch.float64)
            ranks.same("the loss", value, losses["right"].detach(), mistakes=losses)
        held, wanted = stage.waiting.most, min(size - rank, count)
        ranks.holds("held", held == wanted, held=held, wanted=wanted)
        sent = sum(one["bytes"] for one in ranks.calls.made if one["call"] != "recv")
        needed = ((rank > 0) + (rank < size - 1)) * count * batch[0][0].nbytes
        ranks.holds("sent", sent <= needed + SPARE * count, sent=sent, needed=needed)


def likely_losses(batch: Batch, weights: list[Tensor], rank: int) -> dict[str, Tensor]:
    """Return the loss, and others whose gradients on this stage show likely mistakes."""
    losses, sums, count = [], [], len(batch)
    for x, target in batch:
        y = x
        for stage, weight in enumerate(weights):
            y = torch.tanh(y @ weight)
            sums += [y.sum()] * (stage == rank)
        losses.append(nn.functional.mse_loss(y, target))
    total = torch.stack(losses).sum()
    return {
        "right": total / count, "sum": total, "last": losses[-1] / count,
        "from ones": torch.stack(sums).sum(),
    }  # fmt: skip
