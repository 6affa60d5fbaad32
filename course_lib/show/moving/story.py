"""A moving diagram: frames to step through in notebooks and pages, a strip of them elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes

from course_lib.show.moving.frame_svg import image
from course_lib.show.moving.scene import Scene, draw
from course_lib.show.moving.stepper import stepper
from course_lib.show.picture import Picture
from course_lib.show.style import Sheet, sheet
from course_lib.words import told

STRIP_FRAMES = 14
CAPTION_LINE_IN = 0.16


@dataclass(frozen=True)
class Frame:
    title: str
    text: str
    scene: Scene
    is_minor: bool = False
    """Whether a strip that has no room for all can do without it."""
    value: float | None = None
    """The number that its text tells, whatever language that speaks."""


@dataclass(frozen=True)
class Story:
    """`story[3]` is the fourth frame as a picture; shown at the end of a cell, it can be stepped
    through, there and in exported pages. In tests and on GitHub it is a strip of frames."""

    title: str
    frames: tuple[Frame, ...] = field(repr=False)
    is_told: bool = False
    """Whether the strip has the text of each frame below its title."""
    _drawn: dict[int, Picture] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, number: int) -> Picture:
        number = range(len(self.frames))[number]
        if number not in self._drawn:
            frame = self.frames[number]
            height_in = min(max(8.0 * frame.scene.height / frame.scene.width, 1.6), 4.4)
            with sheet(height_in, layout="none") as page:
                draw(_canvas(page, 1, 1)[0], frame.scene)
                self._drawn[number] = page.picture(self._words(number))
        return self._drawn[number]

    def strip(self, columns: int = 0, most: int = STRIP_FRAMES) -> Picture:
        """Frames side by side; of a long story some, always the first and the last."""
        chosen = self._chosen(most)
        widest = max(frame.scene.width for frame in self.frames)
        columns = min(columns or (3 if widest <= 7.5 else 2), len(chosen))
        rows = -(-len(chosen) // columns)
        shape = max(self.frames[n].scene.height / self.frames[n].scene.width for n in chosen)
        words = {n: self._told(n, characters=round(120 / columns)) for n in chosen}
        head_in = 0.3 + CAPTION_LINE_IN * max(text.count("\n") for text in words.values())
        height_in = min(rows * (8.0 / columns * shape + head_in + 0.12), 13.0)
        with sheet(height_in, layout="none") as page:
            panels = _canvas(page, rows, columns, head_in)
            for axes, number in zip(panels, chosen, strict=False):
                frame = self.frames[number]
                draw(axes, frame.scene)
                title, *lines = words[number].splitlines()
                pad = 3 + 72 * CAPTION_LINE_IN * len(lines)
                axes.set_title(title, fontsize=10, pad=pad)
                axes.text(
                    0, 1, "\n".join(lines), fontsize=8.5, va="bottom", transform=axes.transAxes
                )
            for axes in panels[len(chosen) :]:
                axes.set_visible(False)
            left_out = len(self.frames) - len(chosen)
            some = f" ({left_out} frames left out)" if left_out else ""
            said = " ".join(self._words(number) for number in chosen)
            return page.picture(f"{told(self.title)}, {len(self.frames)} frames{some}. {said}")

    def _chosen(self, most: int) -> Sequence[int]:
        everyone = range(len(self.frames))
        if len(everyone) <= most:
            return everyone
        major = [number for number in everyone if not self.frames[number].is_minor]
        return [major[place] for place in _spread(len(major), most)]

    def _told(self, number: int, characters: int) -> str:
        frame = self.frames[number]
        lines = wrap(told(frame.text), characters) if self.is_told else []
        return "\n".join([f"{number + 1}. {told(frame.title)}", *lines])

    def _words(self, number: int) -> str:
        frame = self.frames[number]
        return f"{number + 1}. {told(frame.title)}: {told(frame.text)}"

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self.strip()._repr_mimebundle_()
        if interactive():
            data["text/html"] = self.stepper()
        return data, metadata

    def stepper(self) -> str:
        """All frames with buttons to step through them, as HTML."""
        return stepper(
            told(self.title),
            [
                (image(frame.scene, self._words(number)), self.caption(number))
                for number, frame in enumerate(self.frames)
            ],
        )

    def caption(self, number: int) -> str:
        frame = self.frames[number]
        where = told(f"{number + 1} of {len(self.frames)}")
        return f"<b>{where}. {escape(told(frame.title))}</b><br>{escape(told(frame.text))}"


def _canvas(page: Sheet, rows: int, columns: int, head_in: float = 0.3) -> list[Axes]:
    """Scenes have no ticks or labels to make room for, and laying out is half of the time."""
    row = 1 / rows
    title = head_in / page.figure.get_figheight() if rows * columns > 1 else 0.0
    size = (1 / columns - 0.02, row - title - 0.01)
    return [
        page.figure.add_axes((column / columns + 0.01, 1 - (line + 1) * row + 0.005, *size))
        for line in range(rows)
        for column in range(columns)
    ]


def interactive() -> bool:
    """A kernel with somebody in front of it; a test run (COURSE_PLAIN=1) has nobody."""
    if os.environ.get("COURSE_PLAIN", "") not in ("", "0"):
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def _spread(count: int, most: int) -> Sequence[int]:
    if count <= most:
        return range(count)
    return sorted({round(index * (count - 1) / (most - 1)) for index in range(most)})
