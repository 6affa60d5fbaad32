"""One step of fully sharded data parallelism, told in twenty frames, with numbers.

Layer l maps h to h · Σ_s c_s w_ls: one weight a shard, so that every gradient is known. Memory
counts in layers: a whole layer's parameters are 1, its gradients another 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, ORANGE, QUIET, VERMILION
from course_lib.words import told

RATE = 0.05
SHARD, GAP = 0.55, 0.9
LEFT = 2.2  # middle of the first shard, behind the names of the ranks
Layers = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class FsdpState:
    moment: str
    text: str
    layer: int | None
    owned: Layers
    """Every weight, by layer and shard: shard s lives on rank s."""
    gathered: frozenset[int]
    """Layers whose parameters all ranks hold in full."""
    gradients: tuple[tuple[tuple[float, ...] | None, ...], ...]
    """By rank and layer: all shards before the reduce-scatter, the own one after it."""
    travels: str = ""

    def memory_layers(self, rank: int) -> float:
        layers, ranks = len(self.owned), len(self.owned[0])
        parameters = sum(1 if n in self.gathered else 1 / ranks for n in range(layers))
        return parameters + sum(len(g) / ranks for g in self.gradients[rank] if g)


def initial(layers: int, ranks: int) -> Layers:
    return tuple(
        tuple(0.5 + 0.1 * layer + 0.2 * s for s in range(ranks)) for layer in range(layers)
    )


def factors(ranks: int) -> list[float]:
    return [(1 + shard) / ranks for shard in range(ranks)]


def sample(rank: int) -> tuple[float, float]:
    return 1.0 + 0.5 * rank, 2.0


def gradient(weights: Layers, rank: int) -> Layers:
    """Of half the squared error on the rank's own sample."""
    x, target = sample(rank)
    c = factors(len(weights[0]))
    gains = [sum(a * w for a, w in zip(c, layer, strict=True)) for layer in weights]
    error = math.prod(gains) * x - target
    return tuple(
        tuple(error * x * math.prod(gains[:layer] + gains[layer + 1 :]) * a for a in c)
        for layer in range(len(weights))
    )


def simulate(ranks: int = 3, layers: int = 3) -> list[FsdpState]:
    weights = initial(layers, ranks)
    local = [gradient(weights, rank) for rank in range(ranks)]
    held: list[list[tuple[float, ...] | None]] = [[None] * layers for _ in range(ranks)]
    telling = _Telling(weights, held)
    telling.tell(
        told("sharded"),
        f"Every rank keeps 1/{ranks} of every layer, and of its optimizer state.",
        None,
    )
    for layer in range(layers):
        name = f"layer {layer + 1}"
        telling.gathered = {layer}
        telling.tell(
            f"gather {name}", f"An all-gather brings the missing parts of {name}.", layer, "in"
        )
        telling.tell(f"forward {name}", f"Every rank computes {name} on its own samples.", layer)
        telling.gathered = set()
        telling.tell(f"free {name}", "What belongs to others is thrown away again.", layer)
    for layer in reversed(range(layers)):
        telling.backward(layer, local)
    telling.weights = tuple(
        tuple(w - RATE * held[s][layer][0] for s, w in enumerate(shards))  # type: ignore[index]
        for layer, shards in enumerate(weights)
    )
    telling.tell("optimizer step", "Every rank updates its own shards, and only those.", None)
    return telling.states


class _Telling:
    """What changes from frame to frame."""

    def __init__(self, weights: Layers, gradients: list[list[tuple[float, ...] | None]]) -> None:
        self.weights, self.gradients = weights, gradients
        self.gathered: set[int] = set()
        self.states: list[FsdpState] = []

    def tell(self, moment: str, text: str, layer: int | None, travels: str = "") -> None:
        held = tuple(tuple(row) for row in self.gradients)
        gathered = frozenset(self.gathered)
        self.states.append(FsdpState(moment, text, layer, self.weights, gathered, held, travels))

    def backward(self, layer: int, local: list[Layers]) -> None:
        """`local`: every rank's gradients of its own samples."""
        name, ranks = f"layer {layer + 1}", len(local)
        self.gathered = {layer}
        self.tell(f"gather {name} again", f"The backward pass needs {name} once more.", layer, "in")
        for rank in range(ranks):
            self.gradients[rank][layer] = local[rank][layer]
        text = (
            "A whole layer of gradients on every rank, all different: the layer's fullest moment."
        )
        self.tell(f"backward {name}", text, layer)
        self.gathered = set()
        for rank in range(ranks):
            mean = sum(one[layer][rank] for one in local) / ranks
            self.gradients[rank][layer] = (mean,)
        text = "A reduce-scatter leaves every rank the average of its own part; the rest is freed."
        self.tell(f"reduce-scatter {name}", text, layer, "out")


def fsdp_step(ranks: int = 3, layers: int = 3) -> Story:
    """Twenty frames with three layers: six for every layer, and the two ends."""
    if not (2 <= ranks <= 4 and 1 <= layers <= 4):
        raise ArgumentError(f"{ranks} ranks × {layers} layers do not fit; use 2–4 and 1–4")
    frames = []
    for state in simulate(ranks, layers):
        most = max(state.memory_layers(rank) for rank in range(ranks))
        held = told(f"Memory of a rank in layers: {most:.3g}, without sharding {2 * layers}.")
        text = f"{told(state.text)} {held}"
        frames.append(Frame(state.moment, text, _scene(state), _is_minor(state), most))
    return Story(f"One step of FSDP: {layers} layers on {ranks} ranks", tuple(frames))


def _is_minor(state: FsdpState) -> bool:
    """What looks like the frame before, and what the first and last layers show as well."""
    what, between = state.moment.split()[0], range(1, len(state.owned) - 1)
    return what == "forward" or (what in ("gather", "free") and state.layer in between)


def _scene(state: FsdpState) -> Scene:
    layers, ranks = len(state.owned), len(state.owned[0])
    height = ranks * 1.75 + 0.7
    width = LEFT + layers * (ranks * SHARD + GAP) + 2.2
    things: list[Cell | Arrow | Words] = []
    for layer in range(layers):
        x = _x(layer, (ranks - 1) / 2, ranks)
        things.append(Words(x, height - 0.3, f"layer {layer + 1}", 12, bold=layer == state.layer))
    things.append(Words(width - 1.1, height - 0.3, "memory (layers)", 11))
    for rank in range(ranks):
        y = (ranks - rank - 0.5) * 1.75
        things.append(Words(0.05, y, f"rank {rank}", 12, align="left", bold=True))
        for layer in range(layers):
            things += _layer_cells(state, rank, layer, y)
        held = state.memory_layers(rank)
        full = 1.5 * held / (2 * layers)
        things.append(Cell(width - 1.1, y, "", FAINT, 1.5, 0.5))
        things.append(Cell(width - 1.85 + full / 2, y, "", QUIET, full, 0.5))
        things.append(Words(width - 1.1, y - 0.5, f"{held:.3g} of {2 * layers}", 11))
    if state.layer is not None and state.travels:
        things += _travel(state, ranks)
    return Scene(tuple(things), width, height)


def _layer_cells(state: FsdpState, rank: int, layer: int, y: float) -> list[Cell | Arrow | Words]:
    """Parameters above, gradients below; a pale cell is a part that the rank does not hold."""
    ranks = len(state.owned[0])
    grads = state.gradients[rank][layer]
    now = state.layer == layer
    cells: list[Cell | Arrow | Words] = []
    for shard in range(ranks):
        x = _x(layer, shard, ranks)
        here = shard == rank or layer in state.gathered
        cells.append(
            Cell(x, y + 0.33, "", BLUE if here else FAINT, SHARD, 0.5, strong=now and here)
        )
        reduced = grads is not None and len(grads) == 1
        whole = grads is not None and len(grads) == ranks
        paint = GREEN if reduced and shard == rank else ORANGE if whole else "#eef0f2"
        cells.append(Cell(x, y - 0.33, "", paint, SHARD, 0.5, strong=now and paint != "#eef0f2"))
    return cells


def _travel(state: FsdpState, ranks: int) -> list[Cell | Arrow | Words]:
    """Arrows between neighbouring ranks in the layer's column: parameters in, gradients out."""
    assert state.layer is not None
    middle = _x(state.layer, (ranks - 1) / 2, ranks)
    found: list[Cell | Arrow | Words] = []
    for rank in range(1, ranks):
        low, high = (ranks - rank - 0.5) * 1.75 + 0.62, (ranks - rank + 0.5) * 1.75 - 0.62
        found.append(Arrow(middle - 0.25, low, middle - 0.25, high, paint=VERMILION))
        found.append(Arrow(middle + 0.25, high, middle + 0.25, low, paint=VERMILION))
    return found


def _x(layer: int, shard: float, ranks: int) -> float:
    return LEFT + layer * (ranks * SHARD + GAP) + shard * SHARD
