"""Result of every figure: a PNG with alternative text, small enough for a notebook."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.category import StrCategoryFormatter
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FuncFormatter
from PIL import Image

from course_lib.words import ENGLISH, N_, _, label, language

CSS_PX_PER_INCH = 100
# Device pixels per CSS pixel, tried in this order until the file is small enough.
_SHARPNESS = (2.0, 1.5, 1.0, 0.75)
OUTPUT_LIMIT_BYTES = 200_000
# An output holds the picture twice in base64. The HTML has the alternative text, which JupyterLab
# does not give a bare PNG. The PNG is for LaTeX, slides and viewers that drop HTML.
_PNG_LIMIT_BYTES = OUTPUT_LIMIT_BYTES * 3 // 4 // 2 - 1500


# Names of categories and table columns in figures.
WORDS = {
    N_("activations"), N_("backward"), N_("bubble"), N_("communication"), N_("compute"),
    N_("consumed samples"), N_("elapsed s"), N_("epoch"), N_("exposed communication"),
    N_("forward"), N_("gradients"), N_("idle"), N_("iteration"), N_("lm loss"), N_("loss"),
    N_("measured"), N_("noise scale"), N_("optimizer"), N_("overlapped"), N_("parameters"),
    N_("planned"), N_("predicted"), N_("rank"), N_("step"), N_("steps per second"), N_("temporary"),
    N_("times as fast"), N_("train loss"), N_("the box waits"), N_("validation loss"), N_("worker"),
    N_("workers"), N_("in"), N_("out"),
}  # fmt: skip
_WITH_A_NUMBER = re.compile(r"(.+) (\d+)")


@dataclass(frozen=True)
class Picture:
    png: bytes = field(repr=False)
    alt: str
    width_px: int
    height_px: int
    figure: Figure | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, figure: Figure, alt: str) -> Picture:
        speak(figure)
        width_px, height_px = (round(inch * CSS_PX_PER_INCH) for inch in figure.get_size_inches())
        alt = " ".join(alt.split())
        return cls(_png(figure), alt, width_px, height_px, figure)

    def html(self) -> str:
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<img src="data:image/png;base64,{data}" alt="{escape(self.alt)}" '
            f'width="{self.width_px}" style="max-width:100%;height:auto;background:#fff">'
        )

    def save(self, path: str | Path) -> Path:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.png)
        return target

    def __str__(self) -> str:
        return self.alt

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        size = {"width": self.width_px, "height": self.height_px, "alt": self.alt}
        data = base64.b64encode(self.png).decode("ascii")
        bundle = {"text/html": self.html(), "image/png": data, "text/plain": self.alt}
        return bundle, {"image/png": size}


def shown(text: str) -> str:
    """Translate a name from a table or a label of a lesson; other texts stay as they are.

    Of "slow, rank 2" and "communication: gradients" the parts are translated.
    """
    said = _(text) if text in WORDS else label(text)
    if said != text:
        return said
    for between in (", ", ": "):
        if between in text:
            return between.join(shown(part) for part in text.split(between))
    numbered = _WITH_A_NUMBER.fullmatch(text)
    return f"{shown(numbered[1])} {numbered[2]}" if numbered else text


def speak(figure: Figure) -> None:
    """Translate the names and labels in the figure."""
    if language() == ENGLISH:
        return
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text():
            text.set_text(shown(text.get_text()))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        _speak_ticks(axis)


def _speak_ticks(axis: Axis) -> None:
    """Translate tick labels. Axes with names compute them only when the figure is drawn."""
    formatter = axis.get_major_formatter()
    if isinstance(formatter, StrCategoryFormatter):
        places = list(axis.get_majorticklocs())
        axis.set_ticks(places, [shown(name) for name in formatter.format_ticks(places)])  # type: ignore[no-untyped-call]
    elif isinstance(formatter, FixedFormatter):
        formatter.seq = [shown(name) for name in formatter.seq]
    elif isinstance(formatter, FuncFormatter):
        write: Callable[[float, int | None], str] = formatter.func

        def tell(value: float, place: int | None = None) -> str:
            return shown(write(value, place))

        formatter.func = tell


def _png(figure: Figure) -> bytes:
    """Return the PNG with 256 colours, which are enough for a chart and halve its size."""
    for sharpness in _SHARPNESS:
        figure.set_dpi(CSS_PX_PER_INCH * sharpness)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]  # type: ignore[no-untyped-call]
        image = Image.fromarray(pixels.copy()).quantize(256, dither=Image.Dither.NONE)
        file = io.BytesIO()
        image.save(file, "PNG", optimize=True)
        if file.tell() <= _PNG_LIMIT_BYTES:
            break
    return file.getvalue()
