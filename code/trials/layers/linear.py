"""Tests 13.2 and 13.3: `ColumnParallel` and `RowParallel`, against the whole linear layer.

own = ColumnParallel(weight, bias)     whole ones; the rank keeps some of the outputs
y = own(x)                             x is whole on every rank, y this rank's slice
y.backward(dy)                         the gradient of x is whole again

own = RowParallel(weight, bias)        the rank keeps its slice of the inputs of the weight
y = own(x)                             x is this rank's slice, y is whole on every rank
y.backward(dy)                         the gradient of x is this rank's slice"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from trials.ranks import Ranks

INPUTS, OUTPUTS, ROWS = 24, 12, 10
# Factor on each weight before the second step, which reveals values kept from the first.
CHANGED = -0.5
AGAIN = ", step 2"


def test_column(ColumnParallel: Any, ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    weight, bias = ranks.draw((OUTPUTS, INPUTS), (OUTPUTS,))
    own = ranks.run("the slices", ColumnParallel, weight.clone(), bias.clone())
    has_slice(own, weight, 0, ranks)
    pieces = bias.chunk(size)
    is_parameter("the bias", getattr(own, "bias", None), pieces[rank], ranks,
                 mistakes={"whole": bias}, summands=pieces)  # fmt: skip
    keeps_slices_alone(own, ranks)
    for when in ("", AGAIN):
        x, dy = ranks.draw((ROWS, INPUTS), (ROWS, OUTPUTS))
        mine = x.clone().requires_grad_()
        y = ranks.run("forward" + when, own, mine)
        wanted = nn.functional.linear(x, weight, bias)
        slices = wanted.chunk(size, -1)
        ranks.same("y", y, slices[rank], summands=slices, mistakes={
            "no bias": slices[rank] - bias.chunk(size)[rank],
        })  # fmt: skip
        sends("forward", 0, 0, dy.numel(), ranks)
        backward(y, dy.chunk(size, -1)[rank], when, ranks)
        dx, dweight, dbias = gradients(nn.functional.linear, (x, weight, bias), dy)
        shares = [d @ w for d, w in zip(dy.chunk(size, -1), weight.chunk(size), strict=True)]
        ranks.same("the gradient of x", mine.grad, dx, summands=shares)
        for name, serial in {"weight": dweight, "bias": dbias}.items():
            slices = serial.chunk(size)
            ranks.same(f"the gradient of the {name}", gradient(own, name), slices[rank],
                       summands=slices)  # fmt: skip
        sends("backward", 2 * (size - 1) / size, size - 1, x.numel(), ranks)
        weight, bias = changed(own, ("weight", "bias"), (weight, bias))


def test_row(RowParallel: Any, ranks: Ranks) -> None:
    """Test the layer; a single rank may hold the bias. If no rank holds it, y lacks it."""
    rank, size = ranks.rank, ranks.size
    weight, bias = ranks.draw((OUTPUTS, INPUTS), (OUTPUTS,))
    own = ranks.run("the slices", RowParallel, weight.clone(), bias.clone())
    has_slice(own, weight, 1, ranks)
    held = getattr(own, "bias", None)
    if size == 1 or held is not None:
        is_parameter("the bias", held, bias, ranks, mistakes={"divided": bias / size})
    else:
        is_parameter("the bias", nn.Parameter(bias), bias, ranks)
    keeps_slices_alone(own, ranks)
    for when in ("", AGAIN):
        x, dy = ranks.draw((ROWS, INPUTS), (ROWS, OUTPUTS))
        mine = x.chunk(size, -1)[rank].clone().requires_grad_()
        y = ranks.run("forward" + when, own, mine)
        parts = [s @ w.T for s, w in zip(x.chunk(size, -1), weight.chunk(size, 1), strict=True)]
        wanted = nn.functional.linear(x, weight, bias)
        ranks.same("y", y, wanted, summands=[*parts, bias.expand_as(wanted)], mistakes={
            "no bias": wanted - bias, "bias everywhere": wanted + (size - 1) * bias,
            "averaged": sum_of(parts) / size + bias,
        })  # fmt: skip
        sends("forward", 2 * (size - 1) / size, size - 1, dy.numel(), ranks)
        backward(y, dy, when, ranks)
        dx, dweight, dbias = gradients(nn.functional.linear, (x, weight, bias), dy)
        for what, found, serial, dimension in (
            ("the gradient of x", mine.grad, dx, -1),
            ("the gradient of the weight", gradient(own, "weight"), dweight, 1),
        ):
            slices = serial.chunk(size, dimension)
            ranks.same(what, found, slices[rank], summands=slices)
        found = gradient(own, "bias") if getattr(own, "bias", None) is not None else dbias
        ranks.same("the gradient of the bias", found, dbias)
        sends("backward", 0, 0, dy.numel(), ranks)
        weight, bias = changed(own, ("weight", "bias"), (weight, bias))


def has_slice(own: Any, weight: Tensor, dimension: int, ranks: Ranks) -> None:
    pieces = weight.chunk(ranks.size, dimension)
    across = weight.chunk(ranks.size, 1 - dimension)[ranks.rank]
    is_parameter("the weight", getattr(own, "weight", None), pieces[ranks.rank], ranks,
                 summands=pieces, mistakes={
        "whole": weight, "other dimension": across,
    })  # fmt: skip


def is_parameter(what: str, held: Any, wanted: Tensor, ranks: Ranks, **more: Any) -> None:
    is_one = isinstance(held, nn.Parameter) and held.requires_grad
    ranks.holds(f"{what} learns", is_one or not isinstance(held, Tensor), mistake="no parameter")
    ranks.same(what, held, wanted, **more)


def keeps_slices_alone(own: Any, ranks: Ranks) -> None:
    """Check the memory: a view would keep the whole tensor."""
    slices = [one for one in (own.weight, getattr(own, "bias", None)) if one is not None]
    needed = sum(one.nbytes for one in slices)
    every = [*slices, *vars(own).values()]
    if isinstance(own, nn.Module):
        every += [*own.parameters(), *own.buffers()]
    kept = storage_bytes(every) / needed
    ranks.holds("memory", kept < 1.05, kept=kept)


def storage_bytes(values: Iterable[Any]) -> int:
    storages = [one.untyped_storage() for one in values if isinstance(one, Tensor)]
    return sum({one.data_ptr(): one.nbytes() for one in storages}.values())


def backward(y: Tensor, dy: Tensor, when: str, ranks: Ranks) -> None:
    handed_on: list[tuple[Tensor, Tensor]] = []
    watch_gradients(y, handed_on)
    ranks.run("backward" + when, y.backward, dy.clone())
    unchanged = all(torch.equal(one, before) for one, before in handed_on)
    ranks.holds("unchanged", unchanged)


def watch_gradients(y: Tensor, handed_on: list[tuple[Tensor, Tensor]]) -> None:
    """Record copies of all gradients that backward passes on, to detect functions that change their
    input in place, although other functions use it as well."""

    def keep(_: Sequence[Tensor | None], came: Sequence[Tensor | None]) -> None:
        handed_on.extend((one, one.clone()) for one in _ if one is not None)

    seen: set[Node] = set()
    to_see = [y.grad_fn]
    while to_see:
        node = to_see.pop()
        if node is not None and node not in seen:
            seen.add(node)
            to_see += [one for one, _ in node.next_functions]
            node.register_hook(keep)


def sends(phase: str, needed: float, allowed: float, numbers: int, ranks: Ranks) -> None:
    """Check how many times all `numbers` numbers were sent, by any calls. For a sum, the tests of
    this file also allow that everything is sent to all ranks."""
    sent = ranks.calls.sent() / numbers
    calls = sorted({one["call"] for one in ranks.calls.made})
    ranks.holds(f"sent {phase}", sent <= allowed + 0.01, sent=sent, needed=needed, calls=calls)


def changed(own: Any, names: Iterable[str], weights: Iterable[Tensor]) -> list[Tensor]:
    """Change weights and clear gradients like an optimizer between two steps."""
    for one in (getattr(own, name, None) for name in names):
        if one is not None:  # a rank may have no bias
            one.data *= CHANGED
            one.grad = None
    return [CHANGED * one for one in weights]


def gradient(own: Any, name: str) -> Any:
    return getattr(getattr(own, name, None), "grad", None)


def gradients(
    layer: Callable[..., Tensor], values: Sequence[Tensor], dy: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients of the serial layer."""
    own = [one.clone().requires_grad_() for one in values]
    return torch.autograd.grad(layer(*own), own, dy)


def sum_of(summands: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(summands)).sum(0)
