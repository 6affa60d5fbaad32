"""A frame as SVG: fast to draw, sharp at any size, and small enough to save all frames.

matplotlib draws the strip of frames from the same scene (`scene.draw`).
"""

from __future__ import annotations

import math
from html import escape
from urllib.parse import quote

from course_lib.show.moving.scene import POINTS_AS_GIVEN_IN, Arrow, Cell, Scene, Words, hatching
from course_lib.show.style import INK, PAPER, readable_on

WIDEST_PX, HIGHEST_PX, PX_PER_INCH = 800, 440, 100
MARGIN = 0.1  # in units of the scene
PX_PER_POINT = PX_PER_INCH / 72
ANCHOR = {"center": "middle", "left": "start", "right": "end"}
# Path on a tile of 8 × 8 px, by the first letter of matplotlib's name of a hatching.
HATCHES = {
    "/": "M0 8L8 0", "\\": "M0 0L8 8", "x": "M0 8L8 0M0 0L8 8", "+": "M0 4H8M4 0V8",
    ".": "M3 4H5", "o": "M2 4a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
}  # fmt: skip
# Length and half width of an arrow's head.
HEAD_PT = (6.0, 3.0)
# A higher number is drawn further in front.
Layer = tuple[int, str]


def image(scene: Scene, alt: str) -> str:
    """Return the frame as an `img`, so that its names and styles do not affect the page."""
    width_px, text = svg(scene)
    data = quote(text, safe=" ='/:;,()")
    return (
        f'<img src="data:image/svg+xml,{data}" alt="{escape(alt)}" width="{width_px}" '
        'style="max-width:100%;height:auto;background:#fff">'
    )


def svg(scene: Scene) -> tuple[int, str]:
    """Return the width in CSS pixels and the SVG text."""
    wide, high = scene.width + 2 * MARGIN, scene.height + 2 * MARGIN
    paper = Paper(min(WIDEST_PX / wide, HIGHEST_PX / high), scene.height)
    layers = [layer for thing in scene.things for layer in paper.layers(thing)]
    shapes = "".join(shape for _, shape in sorted(layers, key=lambda layer: layer[0]))
    width_px, height_px = round(wide * paper.unit_px), round(high * paper.unit_px)
    cells = [thing for thing in scene.things if isinstance(thing, Cell) and hatching(thing)]
    patterns = "".join({_id(cell): _pattern(cell) for cell in cells}.values())
    return width_px, (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width_px}' height='{height_px}' "
        f"viewBox='0 0 {width_px} {height_px}' font-family='DejaVu Sans,Verdana,sans-serif'>"
        f"{patterns}<rect width='100%' height='100%' fill='{PAPER}'/>{shapes}</svg>"
    )


def _id(cell: Cell) -> str:
    return f"h{ord(hatching(cell)[0])}{cell.paint[1:]}"


def _pattern(cell: Cell) -> str:
    return (
        f"<pattern id='{_id(cell)}' width='8' height='8' patternUnits='userSpaceOnUse'>"
        f"<path d='M0 0H8V8H0' fill='{cell.paint}'/><path d='{HATCHES[hatching(cell)[0]]}' "
        f"fill='none' stroke='{PAPER}' stroke-width='1.6'/></pattern>"
    )


class Paper:
    """Converter from scene units, whose y axis points up, to pixels."""

    def __init__(self, unit_px: float, height: float) -> None:
        self.unit_px, self._height = unit_px, height
        self._zoom = min(max(unit_px / PX_PER_INCH / POINTS_AS_GIVEN_IN, 0.55), 1.15)

    def layers(self, thing: Cell | Arrow | Words) -> list[Layer]:
        if isinstance(thing, Cell):
            return self._cell(thing)
        if isinstance(thing, Arrow):
            return self._arrow(thing)
        return [(3, self._text(thing))] if thing.text else []

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x + MARGIN) * self.unit_px, (self._height + MARGIN - y) * self.unit_px

    def _points_px(self, points: float) -> float:
        return points * PX_PER_POINT * self._zoom

    def _cell(self, cell: Cell) -> list[Layer]:
        x, y = self._at(cell.x - cell.width / 2, cell.y + cell.height / 2)
        box = (
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{cell.width * self.unit_px:.1f}' "
            f"height='{cell.height * self.unit_px:.1f}'"
        )
        line_px = self._points_px(2.4 if cell.strong else 1.0)
        edge = INK if cell.strong else PAPER
        fill = f"url(#{_id(cell)})" if hatching(cell) else cell.paint
        shape = f"{box} fill='{fill}' stroke='{edge}' stroke-width='{line_px:.1f}'/>"
        found = [(3 if cell.strong else 2, shape)]
        if cell.text:
            words = Words(cell.x, cell.y, cell.text, cell.size, paint=readable_on(cell.paint))
            found.append((4, self._text(words)))
        return found

    def _text(self, words: Words) -> str:
        x, y = self._at(words.x, words.y)
        weight = " font-weight='bold'" if words.bold else ""
        return (
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{self._points_px(words.size):.1f}' "
            f"fill='{words.paint}' text-anchor='{ANCHOR[words.align]}' "
            f"dominant-baseline='central'{weight}>{escape(words.text)}</text>"
        )

    def _arrow(self, arrow: Arrow) -> list[Layer]:
        (x, y), (to_x, to_y) = self._at(arrow.x, arrow.y), self._at(arrow.to_x, arrow.to_y)
        # The y axis points down here, so the bend has the opposite sign.
        middle_x = (x + to_x) / 2 - arrow.bend * (to_y - y)
        middle_y = (y + to_y) / 2 + arrow.bend * (to_x - x)
        length_px, half_px = (self._points_px(points) for points in HEAD_PT)
        turn = math.degrees(math.atan2(to_y - middle_y, to_x - middle_x))
        shape = (
            f"<path d='M{x:.1f} {y:.1f}Q{middle_x:.1f} {middle_y:.1f} {to_x:.1f} {to_y:.1f}' "
            f"fill='none' stroke='{arrow.paint}' stroke-width='{self._points_px(2.2):.1f}'/>"
            f"<path transform='translate({to_x:.1f} {to_y:.1f}) rotate({turn:.1f})' "
            f"d='M0 0L{-length_px:.1f} {-half_px:.1f}V{half_px:.1f}Z' "
            f"fill='{arrow.paint}' stroke='{arrow.paint}' stroke-width='2'/>"
        )
        return [(5, shape)]
