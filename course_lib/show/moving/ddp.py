"""One step of data parallelism with numbers: three layers, one shard of the batch per rank.

The model is a product, prediction = w₁ w₂ w₃ x, so that every gradient can be checked by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words, exchange
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, ORANGE, SKY
from course_lib.words import _

WEIGHTS = (1.2, 0.8, 1.5)
RATE = 0.1
Gradients = tuple[float | None, ...]
COLUMN, ROW = 1.55, 1.5


@dataclass(frozen=True)
class DdpState:
    """State after one moment of the step; layer numbers count from 0."""

    moment: str
    text: str
    weights: tuple[tuple[float, ...], ...]
    gradients: tuple[Gradients, ...]
    averaged: frozenset[int] = frozenset()
    computing: int | None = None
    reducing: int | None = None


def data(ranks: int) -> list[tuple[float, float]]:
    """Return one sample (input, target) per rank."""
    return [(1.0 + 0.5 * rank, 2.0 - 0.25 * rank) for rank in range(ranks)]


def gradient(weights: Sequence[float], samples: Sequence[tuple[float, float]]) -> list[float]:
    """Return the gradient of half the mean squared error for each weight."""
    total = [0.0] * len(weights)
    for x, target in samples:
        error = math.prod(weights) * x - target
        for layer in range(len(weights)):
            others = math.prod(w for number, w in enumerate(weights) if number != layer)
            total[layer] += error * others * x / len(samples)
    return total


def simulate(ranks: int) -> list[DdpState]:
    """Simulate a step. While a layer computes its backward pass, the layer after it is reduced."""
    layers = len(WEIGHTS)
    local = [gradient(WEIGHTS, [sample]) for sample in data(ranks)]
    mean = [sum(column) / ranks for column in zip(*local, strict=True)]
    states = _before_backward(ranks)
    held: list[list[float | None]] = [[None] * layers for _unused in range(ranks)]
    averaged: set[int] = set()
    for layer in reversed(range(layers + 1)):
        computing, reducing = layer - 1, layer
        for rank in range(ranks):
            if computing >= 0:
                held[rank][computing] = local[rank][computing]
            if reducing < layers:
                held[rank][reducing] = mean[reducing]
        if reducing < layers:
            averaged.add(reducing)
        states.append(_moment(states[0], held, averaged, computing, reducing))
    after = tuple(w - RATE * g for w, g in zip(WEIGHTS, mean, strict=True))
    text = _("Every rank takes the same step with the same average, so the weights stay equal.")
    done = replace(states[-1], moment=_("optimizer step"), text=text, weights=(after,) * ranks)
    states.append(replace(done, reducing=None))
    return states


def _before_backward(ranks: int) -> list[DdpState]:
    begin = DdpState(
        _("same weights, different data"),
        _("Rank 0 broadcast its weights once, at the start. Every rank has different samples."),
        (WEIGHTS,) * ranks,
        ((None,) * len(WEIGHTS),) * ranks,
    )
    text = _("Every rank computes its own loss. Nothing is sent.")
    return [begin, replace(begin, moment="forward", text=text, computing=-1)]


def _moment(
    state: DdpState,
    held: list[list[float | None]],
    averaged: set[int],
    computing: int,
    reducing: int,
) -> DdpState:
    layers = len(WEIGHTS)
    moment, text = [], []
    if computing >= 0:
        moment.append(_("backward of layer {computing}", computing=computing + 1))
        text.append(
            _(
                "The gradients of layer {computing} differ, because each rank saw different data.",
                computing=computing + 1,
            )
        )
    if reducing < layers:
        moment.append(_("all-reduce of layer {reducing}", reducing=reducing + 1))
        hidden = _("while the next layer computes") if computing >= 0 else _("and nothing hides it")
        text.append(
            _("Layer {reducing} is averaged {hidden}.", reducing=reducing + 1, hidden=hidden)
        )
    return replace(
        state,
        moment=", ".join(moment),
        text=" ".join(text),
        gradients=tuple(tuple(row) for row in held),
        averaged=frozenset(averaged),
        computing=computing if computing >= 0 else None,
        reducing=reducing if reducing < layers else None,
    )


def ddp_step(ranks: int = 3) -> Story:
    if not 2 <= ranks <= 4:
        raise ArgumentError(_("{ranks} ranks do not fit the picture; use 2 to 4", ranks=ranks))
    states = simulate(ranks)
    frames = tuple(Frame(state.moment, state.text, _scene(state)) for state in states)
    return Story(_("One step of data parallelism on {ranks} ranks", ranks=ranks), frames)


def _scene(state: DdpState) -> Scene:
    ranks, layers = len(state.weights), len(WEIGHTS)
    height = ranks * ROW + 0.6
    things: list[Cell | Arrow | Words] = []
    heads = ["data"] + [f"w{n}" for n in (1, 2, 3)] + [_("gradient {n}", n=n) for n in (1, 2, 3)]
    things += [Words(_x(n), height - 0.25, head, 9, bold=True) for n, head in enumerate(heads)]
    for rank in range(ranks):
        y = _y(rank, ranks)
        things.append(Words(0.05, y, _("rank {rank}", rank=rank), 10.5, align="left", bold=True))
        forward = state.computing == -1
        things.append(Cell(_x(0), y, f"x = {data(ranks)[rank][0]:g}", SKY, 1.35, strong=forward))
        for layer in range(layers):
            changed = state.moment == _("optimizer step")
            weight = f"{state.weights[rank][layer]:.3f}"
            things.append(Cell(_x(1 + layer), y, weight, BLUE, 1.35, strong=forward or changed))
            things.append(_gradient_cell(state, rank, layer, y))
        if state.reducing is not None and rank:
            above = _y(rank - 1, ranks) - 0.4
            things += exchange(_x(4 + state.reducing), y + 0.4, above, 0.15)
    return Scene(tuple(things), _x(6) + 0.8, height)


def _gradient_cell(state: DdpState, rank: int, layer: int, y: float) -> Cell:
    value = state.gradients[rank][layer]
    if value is None:
        return Cell(_x(4 + layer), y, "", FAINT, 1.35)
    paint = GREEN if layer in state.averaged else ORANGE
    new = layer in (state.computing, state.reducing)
    return Cell(_x(4 + layer), y, f"{value:.3f}", paint, 1.35, strong=new)


def _x(column: int) -> float:
    return 1.9 + column * COLUMN + (0.25 if column else 0) + (0.25 if column > 3 else 0)


def _y(rank: int, ranks: int) -> float:
    return (ranks - rank - 0.5) * ROW
