"""Test 14b.2: `Packed(documents, length)` puts whole documents into rows of `length` places.

own = Packed(documents, length)     tokens, targets, positions, owners: [rows, length]
own.visible()                       [rows, queries, keys]: True if a query may look at a key
own.loss(scores)                    this rank's part of the mean over the targets of all ranks

Gradients have to equal those of each document alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from trials.layers.linear import gradients
from trials.ranks import Ranks

NAMES = ("table", "places", "queries", "keys", "values", "head")
PLACES, KINDS, WIDTH, NOTHING = 12, 11, 6, -100
SHAPES = ((KINDS, WIDTH), (PLACES, WIDTH), *[(WIDTH, WIDTH)] * 3, (WIDTH, KINDS))
# Lengths of a rank's documents: one or two fill a row, and one has no target. Rank r has 6 + r.
LENGTHS, ROWS = (5, 7, 3, 1, 4, PLACES, 2, 7, 8), (3, 4, 4, 5)


def test(Packed: Any, ranks: Ranks) -> None:
    weights = ranks.draw(*SHAPES)
    drawn = [ranks.draw(*[(one,) for one in LENGTHS[: 6 + r]]) for r in range(ranks.size)]
    documents = [(100 * one).long() % KINDS for one in drawn[ranks.rank]]
    own = ranks.run("packing", Packed, [one.clone() for one in documents], PLACES)
    rows = [getattr(own, name, None) for name in ("tokens", "targets", "positions", "owners")]
    has = [list(getattr(row, "shape", [])) for row in rows]
    ranks.holds("shapes", has == 4 * [[*has[0][:1], PLACES]], has=has)
    tokens, targets, positions, owners = (torch.as_tensor(row).long() for row in rows)
    for number, document in enumerate(documents):
        mine, length = owners == number, len(document)
        row, place = [*mine.nonzero().tolist(), [0, 0]][0]
        here = row, slice(place, place + length)
        whole = mine.sum() == length == mine[here].sum() and torch.equal(tokens[here], document)
        ranks.holds("whole documents", bool(whole), number=number, length=length)
        counted, following = torch.arange(length), torch.tensor([*document[1:].tolist(), NOTHING])
        ranks.holds("positions", torch.equal(positions[here], counted))
        ranks.holds("targets", torch.equal(targets[here], following))
    ranks.holds("padding", bool((targets[owners < 0] == NOTHING).all()))
    ranks.holds("rows", len(tokens) <= ROWS[ranks.rank], has=len(tokens), most=ROWS[ranks.rank])
    mask = ranks.run("mask", own.visible)
    same, real = owners[:, :, None] == owners[:, None], owners >= 0
    causal = torch.ones(PLACES, PLACES).tril().bool().expand_as(same)
    is_mask = getattr(mask, "shape", 0) == same.shape and mask.dtype == torch.bool
    # Queries in padding have no effect.
    like = [name for name, one in {"": same & causal, "earlier": causal, "ahead": same}.items()
            if is_mask and torch.equal(mask[real], one[real])]  # fmt: skip
    ranks.holds("the mask", "" in like, mistake=(like or [""])[0])
    given = [one.clone().requires_grad_() for one in weights]
    scores = model(given, tokens, positions, mask)
    loss = ranks.run("loss", own.loss, scores)
    alone = sum_of_losses(documents, *weights)
    of_all = sum(len(one) - 1 for of_rank in drawn for one in of_rank)
    ranks.same("the loss", loss, alone / of_all)
    loss.backward()
    whole = gradients(lambda *own: sum_of_losses(documents, *own) / of_all, weights, 0 * alone + 1)
    found = {name: one.grad for name, one in zip(NAMES, given, strict=True)}
    ranks.same("the gradients", found, dict(zip(NAMES, whole, strict=True)))


def model(weights: Any, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    table, places, queries, keys, values, head = weights
    x = table[tokens] + places[positions]
    pairs = (x @ queries @ (x @ keys).mT).masked_fill(~mask, float("-inf"))
    return (x + pairs.softmax(-1) @ (x @ values)) @ head


def sum_of_losses(documents: list[Tensor], *weights: Tensor) -> Tensor:
    """Compute each document alone, without padding and with the causal mask only."""
    total = torch.zeros((), dtype=torch.float64)
    for one in documents:
        causal = torch.ones(1, len(one), len(one)).tril().bool()
        scores = model(weights, one[None], torch.arange(len(one))[None], causal)[0]
        total = total + cross_entropy(scores[:-1], one[1:], reduction="sum")
    return total
