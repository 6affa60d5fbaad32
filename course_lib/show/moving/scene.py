"""Parts of a frame of a moving diagram: cells, arrows, words.

matplotlib is used only for drawing, so simulators and their tests do not need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.show.style import FAINT, HATCHES, INK, PAPER, VERMILION, bare, readable_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Cell:
    """Box with its centre at x and y. `strong` marks the subject of this frame."""

    x: float
    y: float
    text: str = ""
    paint: str = FAINT
    width: float = 1.0
    height: float = 0.8
    strong: bool = False
    hatch: str = ""
    size: float = 10.5


@dataclass(frozen=True)
class Arrow:
    x: float
    y: float
    to_x: float
    to_y: float
    paint: str = INK
    bend: float = 0.0


@dataclass(frozen=True)
class Words:
    x: float
    y: float
    text: str
    size: float = 10.5
    align: str = "center"
    paint: str = INK
    bold: bool = False


@dataclass(frozen=True)
class Scene:
    things: tuple[Cell | Arrow | Words, ...]
    width: float
    height: float


def exchange(x: float, low: float, high: float, gap: float) -> list[Arrow]:
    """Return a red arrow up and one down: two neighbouring ranks send to each other."""
    return [
        Arrow(x - gap, low, x - gap, high, paint=VERMILION),
        Arrow(x + gap, high, x + gap, low, paint=VERMILION),
    ]


# Inches per unit at which the type has the sizes given in the scene.
POINTS_AS_GIVEN_IN = 0.64


def draw(axes: Axes, scene: Scene) -> None:
    """Draw a scene. The type shrinks with its boxes, so it fits in stepper and strip alike."""
    bare(axes)
    figure = axes.get_figure()
    assert figure is not None
    box = axes.get_position()
    width_in, height_in = figure.get_size_inches()  # type: ignore[union-attr]
    unit_in = min(box.width * width_in / scene.width, box.height * height_in / scene.height)
    zoom = min(max(unit_in / POINTS_AS_GIVEN_IN, 0.55), 1.15)
    for thing in scene.things:
        if isinstance(thing, Cell):
            _cell(axes, thing, zoom)
        elif isinstance(thing, Arrow):
            _arrow(axes, thing, zoom)
        else:
            axes.text(
                thing.x, thing.y, thing.text, ha=thing.align, va="center", color=thing.paint,
                fontsize=thing.size * zoom, fontweight="bold" if thing.bold else "normal",
            )  # fmt: skip
    axes.set_xlim(-0.1, scene.width + 0.1)
    axes.set_ylim(-0.1, scene.height + 0.1)
    axes.set_aspect("equal")


def hatching(cell: Cell) -> str:
    """Return the hatching of a cell. By default, cells with words and faint cells have none."""
    is_plain = bool(cell.text) or cell.paint == FAINT
    return cell.hatch or ("" if is_plain else HATCHES.get(cell.paint, ""))


def _cell(axes: Axes, cell: Cell, zoom: float) -> None:
    from matplotlib.patches import Rectangle

    corner = (cell.x - cell.width / 2, cell.y - cell.height / 2)
    box = Rectangle(
        corner, cell.width, cell.height, fc=cell.paint, ec=INK if cell.strong else PAPER,
        lw=(2.4 if cell.strong else 1.0) * max(zoom, 0.5), zorder=3 if cell.strong else 2,
    )  # fmt: skip
    box.set_hatch(hatching(cell))
    axes.add_patch(box)
    if cell.text:
        axes.text(
            cell.x, cell.y, cell.text, ha="center", va="center", zorder=4,
            fontsize=cell.size * zoom, color=readable_on(cell.paint),
        )  # fmt: skip


def _arrow(axes: Axes, arrow: Arrow, zoom: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    start, end = (arrow.x, arrow.y), (arrow.to_x, arrow.to_y)
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=f"arc3,rad={arrow.bend}", arrowstyle="-|>",
            mutation_scale=15 * zoom, color=arrow.paint, lw=2.2 * zoom, zorder=5,
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
