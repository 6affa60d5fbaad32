"""Test 10.1: `accumulate(model, micro_batches)` gives gradients and loss of the whole batch.

`model` is in DistributedDataParallel. A micro-batch is a pair of tokens and targets; a target of
-100 has no loss. Ranks have different numbers of micro-batches and of targets. In the second step,
the last micro-batch of the last rank has no target."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from trials.memory import Waiting
from trials.ranks import Ranks

KINDS, WIDTH, SAMPLES, LENGTH, NOTHING = 11, 6, 2, 8, -100
Pairs = list[tuple[Tensor, Tensor]]


class CountedModel(nn.Module):
    def __init__(self, table: Tensor, head: Tensor) -> None:
        super().__init__()
        self.table, self.head = nn.Parameter(table.clone()), nn.Parameter(head.clone())
        self.waiting = Waiting()

    def forward(self, tokens: Tensor) -> Tensor:
        scores = torch.tanh(self.table[tokens]) @ self.head
        self.waiting.note(tokens, scores)
        return scores


def test(accumulate: Any, ranks: Ranks) -> None:
    weights = ranks.draw((KINDS, WIDTH), (WIDTH, KINDS))
    own, serial = CountedModel(*weights), CountedModel(*weights)
    model, numbers = DistributedDataParallel(own), sum(one.numel() for one in weights)
    for step in (1, 2):
        batch = [micro_batches(ranks, rank, step) for rank in range(ranks.size)]
        ranks.begin(f"step {step}")
        own.zero_grad()
        given = [(tokens.clone(), targets.clone()) for tokens, targets in batch[ranks.rank]]
        with ranks.phase("step"):
            loss = accumulate(model, given)
        losses = likely_losses(serial, batch, ranks.rank)
        tables = {name: gradients(one, serial) for name, one in losses.items()}
        found = {name: one.grad for name, one in own.named_parameters()}
        ranks.same("the gradients", found, tables["right"], mistakes=tables)
        most = own.waiting.most
        ranks.holds("one at a time", most == 1, most=most)
        summed = [one["numbers"] for one in ranks.calls.made if one["call"] == "all_reduce"]
        times = round(sum(summed) / numbers)
        ranks.holds("sent once", times == 1, times=times, count=len(given))
        value = loss if loss is None else torch.as_tensor(loss, dtype=torch.float64)
        ranks.same("the loss", value, losses["right"].detach(), mistakes=losses)
        for one in (own, serial):
            one.table.data *= -0.5  # as an optimizer would


def micro_batches(ranks: Ranks, rank: int, step: int) -> Pairs:
    """Draw the micro-batches of a rank: 3 or 4. Their beginning has no loss, like a question."""
    drawn = ranks.draw(*(3 + rank % 2) * [(SAMPLES, LENGTH + 1)])
    pairs = []
    for number, one in enumerate(drawn):
        text = (100 * one.abs()).long() % KINDS
        targets = text[:, 1:].clone()
        targets[:, : (3 * number + 2 * rank + step) % LENGTH] = NOTHING
        if (step, number, rank) == (2, len(drawn) - 1, ranks.size - 1):
            targets[:] = NOTHING
        pairs.append((text[:, :-1], targets))
    return pairs


def likely_losses(model: CountedModel, batch: list[Pairs], rank: int) -> dict[str, Tensor]:
    """Return the loss of the whole batch, and what likely mistakes make of it."""
    sums = [[sum_of(model, *pair) for pair in pairs] for pairs in batch]
    counts = [[int((targets != NOTHING).sum()) for _, targets in pairs] for pairs in batch]
    places = sum(targets.numel() for pairs in batch for _, targets in pairs)
    ranks, tokens, total = len(batch), sum(map(sum, counts)), total_of(map(total_of, sums))
    pairs = list(zip(sums, counts, strict=True))
    means = [total_of(s / n for s, n in zip(*one, strict=True)) / len(one[0]) for one in pairs]
    of_ranks = [total_of(one) / sum(count) for one, count in pairs]
    share = total_of(sums[rank]) / tokens
    return {
        "right": total / tokens, "micro-batches": total_of(means) / ranks,
        "rank": total_of(of_ranks) / ranks, "ranks": total_of(of_ranks),
        "averaged": total / tokens / ranks, "not divided": total / ranks,
        "padding": total / places, "own": share * ranks,
    }  # fmt: skip


def sum_of(model: CountedModel, tokens: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")


def total_of(tensors: Any) -> Tensor:
    return torch.stack(list(tensors)).sum()


def gradients(loss: Tensor, model: CountedModel) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
    return dict(zip(parameters, found, strict=True))
