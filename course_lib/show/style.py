"""Common style of all figures: colour-blind-safe colours, white background, large type.

Style sheets turn the lightness of a figure round on a dark page, with DARK_FILTER.
The type stays readable on a projector and in print.
Nothing in this package uses pyplot, and matplotlib's settings are restored.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from course_lib.show.picture import CSS_PX_PER_INCH, Picture
from course_lib.words import _

# 800 CSS pixels fit a cell of a JupyterLab 1280 pixels wide with its file browser open.
WIDTH_IN = 8.0

INK, QUIET, FAINT, PAPER = "#000000", "#5f6368", "#d9dce0", "#ffffff"
BLUE, VERMILION, GREEN, PURPLE = "#0071af", "#b94b00", "#00846b", "#ad5088"
ORANGE, SKY, GREY, BROWN = "#e69f00", "#52b3ef", "#909498", "#7a4e2d"
DARK_FILTER = "invert(0.95) hue-rotate(180deg)"

# After Okabe and Ito. All but orange and sky have a contrast of 4.5 with paper, as words need.
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BROWN, INK)

# Colours that a colour-blind reader may confuse differ in their dashes and in their hatching.
DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (11, 2)),
    (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)),
)  # fmt: skip
HATCHES = {
    VERMILION: "//", GREEN: "..", PURPLE: "++", ORANGE: "xx", SKY: "\\\\\\", BROWN: "oo",
    FAINT: "..",
}  # fmt: skip

# Name of a profile's PACE, the sleep of a device slot, in figures.
WAITS = "the box waits"
CATEGORY = {
    "parameters": BLUE,
    "gradients": VERMILION,
    "optimizer": GREEN,
    "activations": SKY,
    "temporary": GREY,
    "unknown": FAINT,
    "inputs": ORANGE,
    "autograd": PURPLE,
    "allocated": BLUE,
    "recorded": SKY,
    "before the record": GREY,
    "compute": BLUE,
    WAITS: SKY,
    "kernel": BLUE,
    "communication": VERMILION,
    "exposed_communication": VERMILION,
    "overlapped": PURPLE,
    "data": ORANGE,
    "dataloader": ORANGE,
    "memcpy": GREEN,
    "memset": PURPLE,
    "runtime": SKY,
    "cpu": BROWN,
    "idle": FAINT,
    "other": GREY,
    "forward": BLUE,
    "backward": ORANGE,
    "recompute": PURPLE,
    "input": SKY,
    "weight": BROWN,
    "bubble": FAINT,
}
# Colour and hatching of the background in a phase, which lie behind curves.
PHASE_TINT = {
    "forward": ("#dcebf7", ""),
    "backward": ("#fde8d3", "x"),
    "optimizer": ("#d9f0e6", "."),
    "communication": ("#f3dfec", "/"),
    "recompute": ("#e6e0f3", "+"),
    "data": ("#ececec", "o"),
    WAITS: ("#f4f4f4", "\\\\"),
}
TINT_EDGE = "#c4c9cf"

_SETTINGS: dict[str, Any] = {
    "font.size": 11.0,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10.0,
    "axes.labelsize": 11.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.08,
    "hatch.linewidth": 0.8,
    "hatch.color": PAPER,
}
_LOCK = threading.RLock()


@cache
def fonts_with_korean() -> list[str]:
    """Return the installed fonts with Korean letters."""
    wanted = (
        "Noto Sans CJK KR", "Noto Sans CJK JP", "NanumGothic", "Malgun Gothic",
        "Apple SD Gothic Neo", "AppleGothic",
    )  # fmt: skip
    installed = {font.name for font in fontManager.ttflist}
    return [name for name in wanted if name in installed]


def colour(name: str, position: int = 0) -> str:
    """Return a category's colour, which is the same in every figure, or a colour by position."""
    return CATEGORY.get(name, SERIES[position % len(SERIES)])


class Sheet:
    """One figure during drawing."""

    def __init__(self, height_in: float, width_in: float, layout: str) -> None:
        size = (width_in, height_in)
        self.figure = Figure(figsize=size, dpi=CSS_PX_PER_INCH, layout=layout)  # type: ignore[arg-type]

    def axes(self, x: str = "", y: str = "", title: str = "") -> Axes:
        axes: Axes = self.figure.add_subplot()
        axes.set(xlabel=x, ylabel=y)
        if title:
            axes.set_title(title)
        return axes

    def panels(self, rows: int, columns: int, **options: Any) -> list[Axes]:
        return list(self.figure.subplots(rows, columns, squeeze=False, **options).flat)

    def picture(self, alt: str) -> Picture:
        return Picture.of(self.figure, alt)


@contextmanager
def sheet(
    height_in: float = 3.8, width_in: float = WIDTH_IN, layout: str = "constrained"
) -> Iterator[Sheet]:
    """Draw with the course's style, independent of the reader's matplotlib settings."""
    settings = {**_SETTINGS, "font.family": ["DejaVu Sans", *fonts_with_korean()]}
    with _LOCK, matplotlib.style.context(["default", settings]):
        yield Sheet(height_in, width_in, layout)


def legend_below(axes: Axes, extra: Sequence[Artist] = ()) -> None:
    """Put the legend below the axes, in as many columns as fit."""
    handles, names = axes.get_legend_handles_labels()
    handles, names = [*handles, *extra], [*names, *(str(artist.get_label()) for artist in extra)]
    kept = dict(zip(names, handles, strict=True))
    lines_last = sorted(kept, key=lambda name: isinstance(kept[name], Line2D))
    figure = axes.get_figure()
    if not kept or figure is None:
        return
    room = int(12 * figure.get_figwidth() / (max(map(len, kept)) + 6))  # type: ignore[union-attr]
    figure.legend(
        [kept[name] for name in lines_last], lines_last, loc="outside lower center",
        ncols=max(1, min(room, len(kept))), columnspacing=1.4, handlelength=1.8,
    )  # fmt: skip


def plain_ticks(axis: Axis) -> None:
    """Write numbers below a million in full on a logarithmic axis, where matplotlib has powers.

    A short axis with fewer than three ticks also gets 2 and 5, or even steps.
    """
    if _shown(axis) < 3:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        if _shown(axis) < 3:
            axis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    digits, _, power = f"{value:,.6g}".partition("e")
    if not power:
        return digits
    return raised(10, int(power)) if digits == "1" else f"{digits}·{raised(10, int(power))}"


def _shown(axis: Axis) -> int:
    low, high = sorted(axis.get_view_interval())
    return sum(low <= value <= high for value in axis.get_majorticklocs())


def readable_on(background: Any) -> str:
    """Return the colour, ink or paper, with more contrast to the background."""
    return max((INK, PAPER), key=lambda words: contrast(words, background))


def contrast(one: Any, other: Any) -> float:
    """Return the ratio of contrast by WCAG 2, between 1 and 21."""
    dark, light = sorted(0.05 + _luminance(paint) for paint in (one, other))
    return light / dark


def _luminance(paint: Any) -> float:
    linear = [(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in to_rgb(paint)]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def bare(axes: Axes) -> Axes:
    """Hide the axes, for diagrams."""
    axes.set_axis_off()
    axes.grid(False)
    return axes


def shorten(text: object, length: int = 28, end: int = 0) -> str:
    """Shorten a text with an ellipsis. Keep the last `end` letters, if names differ there."""
    text = " ".join(str(text).split())
    if len(text) <= length:
        return text
    return f"{text[: length - end - 1]}…{text[len(text) - end :]}"


def listed(names: Iterable[object]) -> str:
    """Join names as "a, b and c", for alternative texts."""
    items = [str(name) for name in names]
    return _(" and ").join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def raised(base: int, power: int) -> str:
    return f"{base}{str(power).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
