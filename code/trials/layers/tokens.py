"""Test 13.4: `GatherTokens` and `ScatterTokens`, the pair of sequence parallelism, around an
MLP.

    whole = GatherTokens.apply(x)            x: this rank's tokens; whole: all of them
    partial = gelu(whole @ a.T) @ b.T        a, b: this rank's slices
    y = ScatterTokens.apply(partial)         this rank's tokens of the sum

The learner's file has these lines as the function `split_mlp`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.layers.linear import AGAIN, gradients, sum_of
from trials.ranks import Ranks

NAME = "split_mlp"
TOKENS, WIDTH, INNER = 24, 6, 12


def test(split_mlp: Any, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    for when in ("", AGAIN):
        x, a, b, dy = ranks.draw((TOKENS, WIDTH), (INNER, WIDTH), (WIDTH, INNER), (TOKENS, WIDTH))
        slices = list(zip(a.chunk(size), b.chunk(size, 1), strict=True))
        mine = [one.clone().requires_grad_() for one in (x.chunk(size)[rank], *slices[rank])]
        ranks.begin("forward" + when)
        with ranks.phase("forward"):
            y = split_mlp(*mine)
        ranks.all_waited_for()
        wanted, partial = mlp(x, a, b), [mlp(x, *of_rank) for of_rank in slices]
        ranks.same("y", y, wanted.chunk(size)[rank], summands=[one.chunk(size)[rank] for one in
                   partial], mistakes={"all tokens": wanted})  # fmt: skip
        sent("forward", 2 * (size - 1) / size, ranks)
        ranks.begin("backward" + when)
        with ranks.phase("backward"):
            y.backward(dy.chunk(size)[rank].clone())
        ranks.all_waited_for()
        dx, da, db = gradients(mlp, (x, a, b), dy)
        by_slice = [gradients(mlp, (x, *of_rank), dy)[0].chunk(size)[rank] for of_rank in slices]
        by_tokens = [gradients(mlp, (x, *slices[rank]), only(r, dy, size)) for r in range(size)]
        for number, (name, serial) in enumerate({"a": da, "b": db}.items(), 1):
            pieces = serial.chunk(size, number - 1)
            ranks.same(f"the gradient of {name}", mine[number].grad, pieces[rank],
                       summands=[one[number] for one in by_tokens],
                       mistakes={"added up": sum_of(pieces)})  # fmt: skip
        ranks.same("the gradient of x", mine[0].grad, dx.chunk(size)[rank], summands=by_slice)
        # A rank that keeps only its own tokens gathers them again for the gradient of a.
        again = (size - 1) / size * ("all_reduce" not in {one["call"] for one in ranks.calls.made})
        sent("backward", 2 * (size - 1) / size + again, ranks)


def mlp(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.gelu(x @ a.T) @ b.T


def only(rank: int, dy: Tensor, size: int) -> Tensor:
    """Return dy, set to zero except for the tokens of one rank."""
    here = torch.zeros_like(dy)
    here.chunk(size)[rank].copy_(dy.chunk(size)[rank])
    return here


def sent(phase: str, needed: float, ranks: Ranks) -> None:
    times = ranks.calls.sent() / (TOKENS * WIDTH)
    calls = sorted({one["call"] for one in ranks.calls.made})
    ranks.holds(f"sent {phase}", times <= needed + 0.01, sent=times, needed=needed, calls=calls)
