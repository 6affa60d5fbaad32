"""Test 13.4: `ParallelAttention`, a norm, attention and a residual, with tokens and heads split.

own = ParallelAttention(scale, shift, qkv, out)   whole ones; the rank keeps its heads
y = own(x)               x and y: this rank's tokens
y.backward(dy)
own.finish()             at the end of the step; then all gradients are right

qkv: [3, heads, head width, width], out: [width, heads, head width], scale and shift: [width]"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.layers.linear import (
    AGAIN,
    gradient,
    gradients,
    is_parameter,
    sends,
    storage_bytes,
    sum_of,
)
from trials.ranks import Ranks

TOKENS, WIDTH, HEADS, HEAD = 12, 24, 12, 2
SMALL = 0.4
NORMS, SLICED = ("scale", "shift"), ("qkv", "out")


def test(ParallelAttention: Any, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    # Of small weights, else the residual is lost beside attention.
    weights = [SMALL * one for one in ranks.draw(
        (WIDTH,), (WIDTH,), (3, HEADS, HEAD, WIDTH), (WIDTH, HEADS, HEAD)
    )]  # fmt: skip
    own = ranks.run("the slices", ParallelAttention, *(one.clone() for one in weights))
    for name, whole in zip(NORMS, weights, strict=False):
        is_parameter(f"the {name}", getattr(own, name, None), whole, ranks)
    for name, whole in zip(SLICED, weights[2:], strict=True):
        pieces = whole.chunk(size, 1)
        is_parameter(f"the {name}", getattr(own, name, None), pieces[rank], ranks,
                     summands=pieces, mistakes={"whole": whole})  # fmt: skip
    held = [getattr(own, name) for name in (*NORMS, *SLICED)]
    kept = storage_bytes([*held, *own.parameters()]) / sum(one.nbytes for one in held)
    ranks.holds("memory", kept < 1.05, kept=kept)
    for when in ("", AGAIN):
        x, dy = ranks.draw(*[(TOKENS, WIDTH)] * 2)
        step(own, x, dy, weights, when, ranks)
        for name in (*NORMS, *SLICED):
            getattr(own, name).grad = None


def step(own: Any, x: Tensor, dy: Tensor, weights: list[Tensor], when: str, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    mine = x.chunk(size)[rank].clone().requires_grad_()
    scale, shift, qkv, out = weights
    of_rank = scale, shift, qkv.chunk(size, 1)[rank], out.chunk(size, 1)[rank]
    y = ranks.run("forward" + when, own, mine)
    wanted = serial(x, *weights)
    ranks.same("y", y, wanted.chunk(size)[rank], mistakes={
        "own heads": serial(x, *of_rank).chunk(size)[rank],
        "residual of all": (wanted + (size - 1) * x).chunk(size)[rank],
        "no mask": (x + attend(norm(x, scale, shift), qkv, out, False)).chunk(size)[rank],
    })  # fmt: skip
    needed = 2 * (size - 1) / size
    sends("forward", needed, needed, TOKENS * WIDTH, ranks)
    ranks.begin("backward" + when)
    with ranks.phase("backward"):
        y.backward(dy.chunk(size)[rank].clone())
    dx, *serial_ones = gradients(serial, (x, *weights), dy)
    ranks.same("the gradient of x", mine.grad, dx.chunk(size)[rank], mistakes={
        "own heads": gradients(serial, (x, *of_rank), dy)[0].chunk(size)[rank],
        "averaged": (dy + (dx - dy) / size).chunk(size)[rank],
    })  # fmt: skip
    with ranks.phase("finish"):
        own.finish()
    ranks.all_waited_for()
    copies = [*[scale] * size, *[shift] * size]
    by_tokens = gradients(serial_by_tokens, (x, qkv, out, *copies), dy)[3:]
    for number, name in enumerate(NORMS):
        ranks.same(f"the gradient of the {name}", gradient(own, name), serial_ones[number],
                   summands=by_tokens[number * size :][:size])  # fmt: skip
    for name, whole in zip(SLICED, serial_ones[2:], strict=True):
        pieces = whole.chunk(size, 1)
        ranks.same(f"the gradient of the {name}", gradient(own, name), pieces[rank],
                   mistakes={"added up": sum_of(pieces)})  # fmt: skip
    # A rank that keeps only its own tokens gathers them again for the gradients of its heads.
    again = (size - 1) / size * ("all_gather_single" in {one["call"] for one in ranks.calls.made})
    needed += again + 2 * len(NORMS) / TOKENS
    sends("backward", needed, needed, TOKENS * WIDTH, ranks)


def norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return nn.functional.layer_norm(x, (WIDTH,), scale, shift)


def attend(x: Tensor, qkv: Tensor, out: Tensor, is_causal: bool = True) -> Tensor:
    q, k, v = torch.einsum("tw,khdw->khtd", x, qkv)
    seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return torch.einsum("htd,whd->tw", seen, out)


def serial(x: Tensor, scale: Tensor, shift: Tensor, qkv: Tensor, out: Tensor) -> Tensor:
    return x + attend(norm(x, scale, shift), qkv, out)


def serial_by_tokens(x: Tensor, qkv: Tensor, out: Tensor, *of_ranks: Tensor) -> Tensor:
    """Compute with a copy of scale and shift for the tokens of each rank."""
    size = len(of_ranks) // 2
    normed = map(norm, x.chunk(size), of_ranks[:size], of_ranks[size:])
    return x + attend(torch.cat(list(normed)), qkv, out)
