"""Guessed, computed and measured numbers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.numbers import real
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PAPER,
    QUIET,
    VERMILION,
    legend_below,
    listed,
    plain_ticks,
    sheet,
    shorten,
)
from course_lib.words import _, label


def predicted(
    predicted: Mapping[str, float],
    measured: Mapping[str, float],
    unit: str = "ms",
    what: str = "time",
) -> Picture:
    """Draw predicted beside measured values, with the ratio of the two."""
    names = [name for name in predicted if name in measured]
    if not names:
        raise ArgumentError(
            _(
                "predicted has {predicted}, and measured has {measured}; one name must be in both",
                predicted=listed(predicted),
                measured=listed(measured),
            )
        )
    what = label(what)
    first = np.array([float(predicted[name]) for name in names])
    second = np.array([float(measured[name]) for name in names])
    with sheet(height_in=1.5 + 0.62 * max(len(names), 2)) as page:
        axes = page.axes(f"{what} ({label(unit)})", "", _("Predicted and measured"))
        _pairs_of_bars(axes, first, second)
        axes.set_yticks(range(len(names)), [shorten(name) for name in names])
        axes.invert_yaxis()
        axes.margins(x=0.32)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        legend_below(axes)
        pairs = zip(names, first, second, strict=True)
        said = [
            _(
                "{n} {a} against {b}",
                n=label(n),
                a=tables.quantity(a, unit),
                b=tables.quantity(b, unit),
            )
            for n, a, b in pairs
        ]
        return page.picture(
            _("Bars, predicted against measured {what}: {said}.", what=what, said="; ".join(said))
        )


def _pairs_of_bars(axes: Axes, first: Any, second: Any) -> None:
    place = np.arange(len(first))
    axes.barh(place - 0.19, first, 0.36, color=ORANGE, hatch="//", label=_("predicted"))
    axes.barh(place + 0.19, second, 0.36, color=BLUE, label=_("measured"))
    for row, (one, other) in enumerate(zip(first, second, strict=True)):
        ratio = other / one if one else float("nan")
        text = _("  measured = {ratio:.2f} × predicted", ratio=ratio)
        axes.text(max(one, other), row, text, va="center", fontsize=9.5)


def guess(
    guess: float | EllipsisType | None,
    measured: float | Sequence[float],
    prediction: float | None = None,
    unit: str = "",
    what: str = "",
) -> Picture:
    """Draw a reader's guess, the formula's result and every measurement on one axis.

    The figure does not judge the guess.
    """
    if guess not in (None, ...) and real(guess) is None:
        raise ArgumentError(
            _("the guess {guess!r} is not a number; use a number such as 3 or 2.5", guess=guess)
        )
    points = np.atleast_1d(tables.numbers(np.atleast_1d(np.asarray(measured, dtype=float))))
    middle = float(np.median(points)) if len(points) else float("nan")
    said = [
        _(
            "measured {middle} (median of {points})",
            middle=tables.quantity(middle, unit),
            points=len(points),
        )
    ]
    with sheet(height_in=2.5) as page:
        axes = page.axes(f"{label(what) or _('measured')} ({label(unit)})")
        spread = np.linspace(-0.16, 0.16, len(points)) if len(points) > 1 else np.zeros(1)
        axes.plot(points, spread, "o", color=BLUE, ms=8, mec="white", alpha=0.85)
        rows = [(_("you measured"), 0.0)]
        for name, value, height, sign, paint in (
            (_("the formula says"), prediction, 1.0, "D", GREEN),
            (_("you guessed"), guess, 2.0, "s", VERMILION),
        ):
            if (known := real(value)) is not None:
                text = tables.quantity(known, unit)
                axes.plot([known], [height], sign, color=paint, ms=11)
                axes.plot([known, known], [-0.5, height], color=paint, lw=1.0, ls=":")
                _beside(axes, text, (known, height))
                rows.append((name, height))
                said.insert(0, f"{name.split()[-1]} {text}")
        at = (points.max(initial=middle), 0)
        quantity = tables.quantity(middle, unit)
        text = _("median {quantity}", quantity=quantity) if len(points) > 1 else quantity
        _beside(axes, text, at, fontweight="bold", color=INK)
        axes.set_yticks([height for _name, height in rows], [name for name, _height in rows])
        axes.set_ylim(-0.5, max(height for _name, height in rows) + 0.5)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0, labelcolor=QUIET)
        axes.margins(x=0.18)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        return page.picture(_("Points on one axis: {said}.", said="; ".join(said)))


def _beside(axes: Axes, text: str, point: tuple[float, float], **look: Any) -> None:
    """Write a label beside a point. Its background hides lines that would cross the text."""
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
    axes.annotate(
        text, point, xytext=(11, 0), textcoords="offset points", va="center", bbox=box, **look
    )


def guesses(kept: pd.DataFrame) -> Picture:
    """Draw the error of each guess by lesson, and count the choices above.

    Takes the table of `guesses()`.
    """
    tables.require(kept, ["lesson", "times_off", "is_right"], "guesses")
    lessons = sorted(set(kept["lesson"]))
    if not lessons:
        raise ArgumentError(_("no guess has a measurement yet; run a lesson first"))
    middles, said = [], []
    with sheet(height_in=3.8) as page:
        axes = page.axes(_("lesson"), _("factor by which guesses are wrong"), _("Your guesses"))
        for place, lesson in enumerate(lessons):
            rows = kept[kept["lesson"] == lesson]
            off = tables.numbers(rows["times_off"].dropna())
            axes.plot(_beside_each_other(place, len(off)), off, "o", color=BLUE, ms=7, mec="white")
            middles.append(float(np.median(off)) if len(off) else float("nan"))
            choices = [bool(right) for right in rows["is_right"].dropna()]
            if choices:
                _count_above(axes, place, choices)
            said.append(
                _(
                    "{lesson}: {off} numbers, {choices} choices",
                    lesson=lesson,
                    off=len(off),
                    choices=len(choices),
                )
            )
        axes.plot(range(len(lessons)), middles, color=ORANGE, lw=2, label=_("middle of a lesson"))
        axes.axhline(1, color=GREEN, lw=1.2, ls="--", label=_("right"))
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
        axes.set_ylim(0.85, max([4.0, *kept["times_off"].dropna()]) * 2)
        axes.set_xticks(range(len(lessons)), lessons, fontsize=9)
        legend_below(axes)
        return page.picture(
            _("Factor by which guesses missed, by lesson. {said}.", said="; ".join(said))
        )


def _count_above(axes: Axes, place: int, choices: list[bool]) -> None:
    axes.set_title(_("at the top: right choices of all choices"), **AT_RIGHT)
    text = f"{sum(choices)}/{len(choices)}"
    axes.annotate(text, (place, 1), xycoords=("data", "axes fraction"), **BELOW_TOP)


AT_RIGHT: dict[str, Any] = {"loc": "right", "fontsize": 9, "fontweight": "normal"}
BELOW_TOP: dict[str, Any] = {
    "xytext": (0, -4), "textcoords": "offset points", "ha": "center", "va": "top", "fontsize": 8.5,
    "bbox": {"facecolor": PAPER, "edgecolor": "none", "pad": 1},
}  # fmt: skip


def _beside_each_other(place: float, number: int) -> Any:
    return place + (np.arange(number) - (number - 1) / 2) * min(0.09, 0.7 / max(number, 1))
