"""What every figure returns: a PNG with its alternative text, small enough for a notebook."""

from __future__ import annotations

import base64
import io
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

from course_lib.words import ENGLISH, language, told

CSS_PX_PER_INCH = 100
_SHARPNESS = (2.0, 1.5, 1.0, 0.75)
"""Device pixels per CSS pixel, tried in turn until the file is small enough."""
OUTPUT_LIMIT_BYTES = 200_000
_PNG_LIMIT_BYTES = OUTPUT_LIMIT_BYTES * 3 // 4 // 2 - 1500
"""An output holds the picture twice in base64: as HTML, because JupyterLab gives a bare PNG no
alternative text, and as PNG, for LaTeX, slides and viewers that drop HTML."""


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
        alt = told(" ".join(alt.split()))
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


def speak(figure: Figure) -> None:
    """Puts what stands in the figure into the reader's language."""
    if language() == ENGLISH:
        return
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text():
            text.set_text(told(text.get_text()))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        _speak_ticks(axis)


def _speak_ticks(axis: Axis) -> None:
    """Those with names write them when the figure is drawn."""
    formatter = axis.get_major_formatter()
    if isinstance(formatter, StrCategoryFormatter):
        places = list(axis.get_majorticklocs())
        axis.set_ticks(places, [told(name) for name in formatter.format_ticks(places)])  # type: ignore[no-untyped-call]
    elif isinstance(formatter, FixedFormatter):
        formatter.seq = [told(name) for name in formatter.seq]
    elif isinstance(formatter, FuncFormatter):
        write: Callable[[float, int | None], str] = formatter.func

        def tell(value: float, place: int | None = None) -> str:
            return told(write(value, place))

        formatter.func = tell


def _png(figure: Figure) -> bytes:
    """256 colours lose nothing in a chart and more than halve the file."""
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
