"""One step of fully sharded data parallelism in twenty frames.

The unit of memory is one layer's parameters. Its gradients take one more unit.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words, exchange
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import BLUE, FAINT, GREEN, INK, ORANGE, QUIET
from course_lib.words import _

SHARD, GAP = 0.55, 0.9
LEFT = 3.1  # centre of the first shard, to the right of the rows' names
# Parts of a layer's gradients that a rank may hold.
NONE, WHOLE, SHARD_ONLY = "none", "whole", "shard"


@dataclass(frozen=True)
class FsdpState:
    moment: str
    text: str
    layer: int | None
    ranks: int
    # Layer whose parameters all ranks hold in full.
    gathered: int | None
    # For each layer, the part of its gradients that every rank holds.
    gradients: tuple[str, ...]
    travels: bool = False

    @property
    def memory_layers(self) -> float:
        """Return the memory of each rank, in layers."""
        layers = len(self.gradients)
        parameters = layers / self.ranks + (self.gathered is not None) * (1 - 1 / self.ranks)
        held = {NONE: 0.0, WHOLE: 1.0, SHARD_ONLY: 1 / self.ranks}
        return parameters + sum(held[gradients] for gradients in self.gradients)


def simulate(ranks: int = 3, layers: int = 3) -> list[FsdpState]:
    states: list[FsdpState] = []
    gradients = [NONE] * layers

    def tell(
        moment: str, text: str, layer: int | None = None, full: bool = False, travels: bool = False
    ) -> None:
        gathered = layer if full else None
        states.append(FsdpState(moment, text, layer, ranks, gathered, tuple(gradients), travels))

    tell(
        _("sharded"),
        _("Every rank keeps 1/{ranks} of every layer, and of its optimizer state.", ranks=ranks),
    )
    for layer in range(layers):
        name = _("layer {layer}", layer=layer + 1)
        text = _("An all-gather brings the missing parts of {name}.", name=name)
        tell(_("gather {name}", name=name), text, layer, True, True)
        text = _("Every rank computes {name} on its own samples.", name=name)
        tell(_("forward {name}", name=name), text, layer, True)
        text = _("Every rank frees the parts of the other ranks.")
        tell(_("free {name}", name=name), text, layer)
    for layer in reversed(range(layers)):
        name = _("layer {layer}", layer=layer + 1)
        text = _("The backward pass needs {name} once more.", name=name)
        tell(_("gather {name} again", name=name), text, layer, True, True)
        gradients[layer] = WHOLE
        text = _(
            "Every rank holds the gradients of a whole layer, all different. Memory peaks here."
        )
        tell(_("backward {name}", name=name), text, layer, True)
        gradients[layer] = SHARD_ONLY
        text = _(
            "After a reduce-scatter, every rank has the average of its own part and frees the rest."
        )
        tell(_("reduce-scatter {name}", name=name), text, layer, travels=True)
    tell(_("optimizer step"), _("Every rank updates only its own shards."))
    return states


def fsdp_step(ranks: int = 3, layers: int = 3) -> Story:
    """Return one FSDP step as a story: six frames per layer, and the two ends."""
    if not (2 <= ranks <= 4 and 1 <= layers <= 4):
        raise ArgumentError(
            _(
                "{ranks} ranks × {layers} layers do not fit the picture; use 2 to 4 "
                "ranks and 1 to 4 layers",
                ranks=ranks,
                layers=layers,
            )
        )
    frames = []
    for state in simulate(ranks, layers):
        most = state.memory_layers
        held = _(
            "Memory of a rank in layers: {most:.3g}, without sharding {value}.",
            most=most,
            value=2 * layers,
        )
        text = f"{state.text} {held}"
        frames.append(Frame(state.moment, text, _scene(state), _is_minor(state), most))
    return Story(
        _("One step of FSDP: {layers} layers on {ranks} ranks", layers=layers, ranks=ranks),
        tuple(frames),
    )


def _is_minor(state: FsdpState) -> bool:
    """Return whether a short strip may omit this frame, because a similar frame remains."""
    what, between = state.moment.split()[0], range(1, len(state.gradients) - 1)
    return what == "forward" or (what in ("gather", "free") and state.layer in between)


def _scene(state: FsdpState) -> Scene:
    layers, ranks = len(state.gradients), state.ranks
    height = ranks * 1.75 + 0.7
    width = LEFT + layers * (ranks * SHARD + GAP) + 2.2
    things: list[Cell | Arrow | Words] = []
    for layer in range(layers):
        x = _x(layer, (ranks - 1) / 2, ranks)
        name = _("layer {layer}", layer=layer + 1)
        things.append(Words(x, height - 0.3, name, 12, bold=layer == state.layer))
    things.append(Words(width - 1.1, height - 0.3, _("memory (layers)"), 11))
    for rank in range(ranks):
        y = (ranks - rank - 0.5) * 1.75
        things.append(Words(0.05, y, _("rank {rank}", rank=rank), 12, align="left", bold=True))
        for layer in range(layers):
            things += _layer_cells(state, rank, layer, y)
        held = state.memory_layers
        full = 1.5 * held / (2 * layers)
        things.append(Cell(width - 1.1, y, "", FAINT, 1.5, 0.5))
        things.append(Cell(width - 1.85 + full / 2, y, "", INK, full, 0.5))
        said = _("{held:.3g} of {value}", held=held, value=2 * layers)
        things.append(Words(width - 1.1, y - 0.5, said, 11))
    if state.layer is not None and state.travels:
        middle = _x(state.layer, (ranks - 1) / 2, ranks)
        for rank in range(1, ranks):
            low, high = (ranks - rank - 0.5) * 1.75 + 0.62, (ranks - rank + 0.5) * 1.75 - 0.62
            things += exchange(middle, low, high, 0.25)
    return Scene(tuple(things), width, height)


def _layer_cells(state: FsdpState, rank: int, layer: int, y: float) -> list[Cell | Arrow | Words]:
    """Draw parameters above gradients. A pale cell is a part that the rank does not hold."""
    ranks, gradients = state.ranks, state.gradients[layer]
    now = state.layer == layer
    edge = LEFT - 0.4
    cells: list[Cell | Arrow | Words] = []
    if layer == rank == 0:
        cells.append(Words(edge, y + 0.33, _("parameters"), 9, align="right", paint=QUIET))
        cells.append(Words(edge, y - 0.33, _("gradients"), 9, align="right", paint=QUIET))
    for shard in range(ranks):
        x = _x(layer, shard, ranks)
        here = shard == rank or layer == state.gathered
        cells.append(
            Cell(x, y + 0.33, "", BLUE if here else FAINT, SHARD, 0.5, strong=now and here)
        )
        reduced = gradients == SHARD_ONLY and shard == rank
        paint = GREEN if reduced else ORANGE if gradients == WHOLE else FAINT
        cells.append(Cell(x, y - 0.33, "", paint, SHARD, 0.5, strong=now and paint != FAINT))
    return cells


def _x(layer: int, shard: float, ranks: int) -> float:
    return LEFT + layer * (ranks * SHARD + GAP) + shard * SHARD
