"""Load of the nodes and ranks of a job: as a figure afterwards, as a small table while it runs."""

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
from course_lib.words import told

SPARK_PX, SPARK_HEIGHT_PX, SPARK_POINTS = 120, 22, 60
Line = tuple[str, Any, Any]


def monitor(recorded: Any) -> Picture:
    """What read.monitor returned: processors or devices, memory and network over time."""
    panels = {
        "load (%)": list(_busy(recorded)),
        "memory (GiB)": list(_memory(recorded)),
        "network (MB/s)": list(_network(recorded)),
    }
    if not any(panels.values()):
        raise ArgumentError("nothing was monitored; run the job with monitor=True in its recipe")
    said = []
    with sheet(height_in=5.6) as page:
        axes_list = page.panels(3, 1, sharex=True)
        for axes, (label, lines) in zip(axes_list, panels.items(), strict=True):
            _draw(axes, label, lines)
            said += [
                f"{name} {label}: mean {_mean(y)}, highest {_highest(y)}" for name, _, y in lines
            ]
        axes_list[-1].set_xlabel("time since the first look (s)")
        axes_list[0].set_title("Load while the job ran")
        return page.picture(f"Three line charts over time. {'; '.join(said[:16])}.")


def monitor_panel(recorded: Any) -> str:
    """HTML for a live panel: a row a node or device, its last values and a small curve."""
    rows = []
    for title, unit, lines in (
        ("load of {name}", "%", _busy(recorded)),
        ("memory of {name}", "GiB", _memory(recorded)),
        ("network of {name}", "MB/s", _network(recorded)),
    ):
        for name, _, values in lines:
            finite = values[np.isfinite(values)]
            if len(finite):
                last = tables.quantity(float(finite[-1]), unit)
                cells = (told(title.format(name=escape(name))), f"<b>{last}</b>", _spark(finite))
                rows.append(
                    "".join(f'<td style="padding:0 1.2em 0 0">{cell}</td>' for cell in cells)
                )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>" if rows else ""


def _busy(recorded: Any) -> Iterator[Line]:
    """Devices where there are any, else the ranks, else the nodes' processors."""
    devices, ranks, load = (_table(recorded, name) for name in ("devices", "ranks", "load"))
    if len(devices) and devices["utilisation_percent"].notna().any():
        yield from _lines(
            devices, ["node", "device"], "utilisation_percent", "device {device}, {node}"
        )
    elif len(ranks) and ranks["slot_percent"].notna().any():
        yield from _lines(ranks, ["rank", "node"], "slot_percent", "rank {rank}, {node}")
    else:
        yield from _lines(load, ["node"], "cpu_percent", "{node}")


def _memory(recorded: Any) -> Iterator[Line]:
    devices, ranks, load = (_table(recorded, name) for name in ("devices", "ranks", "load"))
    if len(devices) and devices["memory_used_bytes"].notna().any():
        found = _lines(devices, ["node", "device"], "memory_used_bytes", "device {device}, {node}")
    elif len(ranks):
        found = _lines(ranks, ["rank", "node"], "memory_bytes", "rank {rank}, {node}")
    else:
        found = _lines(load, ["node"], "memory_used_bytes", "{node}")
    for name, x, y in found:
        yield name, x, y / 2**30


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
        look = {"color": SERIES[position % 8], "linestyle": DASHES[position // 8 % 4]}
        axes.plot(*tables.thin(x, y), lw=1.6, label=name, **look)
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _mean(y: Any) -> str:
    return tables.quantity(float(np.nanmean(y))) if np.isfinite(y).any() else "unknown"


def _highest(y: Any) -> str:
    return tables.quantity(float(np.nanmax(y))) if np.isfinite(y).any() else "unknown"


def _spark(values: Any) -> str:
    """A curve of the last minute; drawn by hand, because a panel is redrawn every second."""
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
