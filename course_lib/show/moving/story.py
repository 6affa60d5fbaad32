"""A moving diagram: frames to step through in notebooks and pages, elsewhere a strip of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes

from course_lib.front_end import interactive
from course_lib.show.moving.frame_svg import image
from course_lib.show.moving.scene import Scene, draw
from course_lib.show.picture import Picture
from course_lib.show.style import Sheet, sheet
from course_lib.words import N_, _

BUTTON = (
    "font:inherit;color:inherit;background:transparent;border:1px solid;border-radius:4px;"
    "padding:2px 10px;cursor:pointer"
)
PLAY, PAUSE = N_("▶ play"), N_("❚❚ pause")
BUTTONS = {N_("one frame back"): "◂", PLAY: PLAY, N_("one frame forward"): "▸"}
SCRIPT = Path(__file__).with_name("stepper.js").read_text(encoding="utf-8")
STRIP_FRAMES = 14
CAPTION_LINE_IN = 0.16


@dataclass(frozen=True)
class Frame:
    title: str
    text: str
    scene: Scene
    # Whether a short strip may omit this frame.
    is_minor: bool = False
    # The number in the frame's text, independent of language.
    value: float | None = None


@dataclass(frozen=True)
class Story:
    """Frames with a title, shown at the end of a cell.

    Notebooks and exported pages show buttons to step through them. Tests and GitHub show a strip.
    """

    title: str
    frames: tuple[Frame, ...] = field(repr=False)
    # Whether the strip shows each frame's text below its title.
    is_told: bool = False

    def strip(self, columns: int = 0, most: int = STRIP_FRAMES) -> Picture:
        """Draw frames side by side. A long story shows only some, with the first and the last."""
        chosen = self._chosen(most)
        widest = max(frame.scene.width for frame in self.frames)
        columns = min(columns or (3 if widest <= 7.5 else 2), len(chosen))
        rows = -(-len(chosen) // columns)
        shape = max(self.frames[n].scene.height / self.frames[n].scene.width for n in chosen)
        words = {n: self._frame_text(n, characters=round(120 / columns)) for n in chosen}
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
            some = _(" ({left_out} frames left out)", left_out=left_out) if left_out else ""
            said = " ".join(self._words(number) for number in chosen)
            return page.picture(
                _(
                    "{title}, {frames} frames{some}. {said}",
                    title=self.title,
                    frames=len(self.frames),
                    some=some,
                    said=said,
                )
            )

    def _chosen(self, most: int) -> Sequence[int]:
        everyone = range(len(self.frames))
        if len(everyone) <= most:
            return everyone
        major = [number for number in everyone if not self.frames[number].is_minor]
        if len(major) <= most:
            return major
        places = {round(index * (len(major) - 1) / (most - 1)) for index in range(most)}
        return [major[place] for place in sorted(places)]

    def _frame_text(self, number: int, characters: int) -> str:
        frame = self.frames[number]
        lines = wrap(frame.text, characters) if self.is_told else []
        return "\n".join([f"{number + 1}. {frame.title}", *lines])

    def _words(self, number: int) -> str:
        frame = self.frames[number]
        return f"{number + 1}. {frame.title}: {frame.text}"

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self.strip()._repr_mimebundle_()
        if interactive():
            data["text/html"] = self.stepper()
        return data, metadata

    def stepper(self) -> str:
        """Return all frames as HTML, with buttons to step through them.

        Only the heading is above its picture, so that the pictures of all frames have one place.
        The controls are hidden until the script has run. The arrow keys move the slider, because
        JupyterLab does not handle keys pressed in a slider.
        """
        buttons = "".join(
            f'<button type="button" aria-label="{_(name)}" title="{_(name)}" style="{BUTTON}">'
            f"{_(sign)}</button>"
            for name, sign in BUTTONS.items()
        )
        slider = (
            f'<input type="range" min="0" max="{len(self.frames) - 1}" value="0" '
            f'aria-label="{_("frame")}" style="flex:1 1 auto;min-width:6em">'
        )
        options = "".join(
            f"<option value={speed}{' selected' if speed == 1 else ''}>{speed} ×</option>"
            for speed in (0.25, 0.5, 1, 2)
        )
        speed = f'<select aria-label="{_("speed")}" style="{BUTTON}">{options}</select>'
        figures = "".join(
            f'<figure style="margin:0.5em 0"><figcaption style="padding:4px 0">'
            f"<b>{self.heading(number)}</b></figcaption>{image(frame.scene, self._words(number))}"
            f'<p style="line-height:1.5">{escape(frame.text)}</p></figure>'
            for number, frame in enumerate(self.frames)
        )
        title = escape(self.title)
        return (
            '<div data-lm-suppress-shortcuts="true" style="max-width:820px">'
            f"<p><b>{title}</b></p>"
            f'<div role="group" aria-label="{title}" data-pause="{_(PAUSE)}" hidden>'
            '<div style="display:flex;'
            f'gap:6px;align-items:center;flex-wrap:wrap">{buttons}{slider}{speed}</div></div>'
            f'<div aria-live="polite">{figures}</div><script>{SCRIPT}</script></div>'
        )

    def heading(self, number: int) -> str:
        where = _("{number} of {frames}", number=number + 1, frames=len(self.frames))
        return f"{where}. {escape(self.frames[number].title)}"


def _canvas(page: Sheet, rows: int, columns: int, head_in: float = 0.3) -> list[Axes]:
    """Add panels by hand. Scenes have no ticks or labels, and a layout engine is slow."""
    row = 1 / rows
    title = head_in / page.figure.get_figheight() if rows * columns > 1 else 0.0
    size = (1 / columns - 0.02, row - title - 0.01)
    return [
        page.figure.add_axes((column / columns + 0.01, 1 - (line + 1) * row + 0.005, *size))
        for line in range(rows)
        for column in range(columns)
    ]
