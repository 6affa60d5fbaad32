"""Load of a job's nodes and ranks: a figure afterwards, or a small table during the job."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import BLUE, DASHES, SERIES, sheet
from course_lib.words import _

SPARK_PX, SPARK_HEIGHT_PX, SPARK_POINTS = 120, 22, 60
Line = tuple[str, Any, Any]


def monitor(recorded: Any) -> Picture:
    """Draw a table of read.monitor: processors or devices, memory and network over time."""
    panels = {
        _("load (%)"): list(_busy(recorded)),
        _("memory (GiB)"): list(_memory(recorded)),
        _("network (MB/s)"): list(_network(recorded)),
    }
    if not any(panels.values()):
        raise ArgumentError(_("this run has no load data; use monitor=True in its recipe"))
    said = []
    with sheet(height_in=5.6) as page:
        axes_list = page.panels(3, 1, sharex=True)
        for axes, (label, lines) in zip(axes_list, panels.items(), strict=True):
            _draw(axes, label, lines)
            said += [
                _(
                    "{name} {label}: mean {y}, highest {y2}",
                    name=name,
                    label=label,
                    y=_finite_statistic(np.mean, y),
                    y2=_finite_statistic(np.max, y),
                )
                for name, _unused, y in lines
            ]
        axes_list[-1].set_xlabel(_("time since the first measurement (s)"))
        axes_list[0].set_title(_("Load while the job ran"))
        return page.picture(_("Three line charts over time. {said}.", said="; ".join(said[:16])))


def monitor_panel(recorded: Any) -> str:
    """Return HTML for a live panel: per node or device a row with last values and a small curve."""
    rows = []
    for title, unit, lines in (
        (_("load of {name}"), "%", _busy(recorded)),
        (_("memory of {name}"), "GiB", _memory(recorded)),
        (_("network of {name}"), "MB/s", _network(recorded)),
    ):
        for name, _unused, values in lines:
            finite = values[np.isfinite(values)]
            if len(finite):
                last = tables.quantity(float(finite[-1]), unit)
                cells = (title.format(name=escape(name)), f"<b>{last}</b>", _spark(finite))
                rows.append(
                    "".join(f'<td style="padding:0 1.2em 0 0">{cell}</td>' for cell in cells)
                )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if rows else ""


def _busy(recorded: Any) -> Iterator[Line]:
    columns = ("utilisation_percent", "slot_percent", "cpu_percent")
    return _load_lines(recorded, columns)


def _memory(recorded: Any) -> Iterator[Line]:
    columns = ("memory_used_bytes", "memory_bytes", "memory_used_bytes")
    for name, x, y in _load_lines(recorded, columns):
        yield name, x, y / 2**30


def _load_lines(recorded: Any, columns: tuple[str, str, str]) -> Iterator[Line]:
    """Return lines of the devices if measured, else of the ranks, else of the nodes' processors."""
    devices, ranks, load = (_table(recorded, name) for name in ("devices", "ranks", "load"))
    of_device, of_rank, of_node = columns
    if len(devices) and devices[of_device].notna().any():
        return _lines(devices, ["node", "device"], of_device, _("device {device}, {node}"))
    if len(ranks) and ranks[of_rank].notna().any():
        return _lines(ranks, ["rank", "node"], of_rank, _("rank {rank}, {node}"))
    return _lines(load, ["node"], of_node, "{node}")


def _network(recorded: Any) -> Iterator[Line]:
    load = _table(recorded, "load")
    for way in ("in", "out"):
        column = f"network_{way}_bytes_s"
        if column in load:
            for name, x, y in _lines(load, ["node"], column, f"{{node}}, {way}"):
                yield name, x, y / 1e6


def _table(recorded: Any, name: str) -> pd.DataFrame:
    table = getattr(recorded, name, None)
    return table if isinstance(table, pd.DataFrame) else pd.DataFrame()


def _lines(table: pd.DataFrame, keys: list[str], column: str, name: str) -> Iterator[Line]:
    if table.empty:
        return
    tables.require(table, [*keys, "time_s", column], "monitor")
    for values, part in table.groupby(keys, sort=True):
        ordered = part.sort_values("time_s")
        facts = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
        yield (
            name.format(**facts),
            tables.numbers(ordered["time_s"]),
            tables.numbers(ordered[column]),
        )


def _draw(axes: Axes, label: str, lines: list[Line]) -> None:
    axes.set_ylabel(label)
    for position, (name, x, y) in enumerate(lines[:16]):
        look = {"color": SERIES[position % 8], "linestyle": DASHES[position % len(DASHES)]}
        axes.plot(*tables.thin(x, y), lw=1.6, label=name, **look)
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _finite_statistic(statistic: Any, y: Any) -> str:
    finite = y[np.isfinite(y)]
    return tables.quantity(float(statistic(finite))) if len(finite) else "unknown"


def _spark(values: Any) -> str:
    """Draw a curve of the last minute as SVG, which is fast enough for a redraw every second."""
    shown = values[-SPARK_POINTS:]
    top = max(float(shown.max()), 1e-9)
    step = SPARK_PX / max(len(shown) - 1, 1)
    height = SPARK_HEIGHT_PX - 3
    points = " ".join(
        f"{index * step:.1f},{height + 1 - height * float(value) / top:.1f}"
        for index, value in enumerate(shown)
    )
    return (
        f'<svg width="{SPARK_PX}" height="{SPARK_HEIGHT_PX}" aria-hidden="true">'
        f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="1.6"/></svg>'
    )
