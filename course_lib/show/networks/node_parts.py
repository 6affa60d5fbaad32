"""Two nodes from the inside: devices, switches, adapters, and the network between them."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from course_lib.show.picture import Picture
from course_lib.show.style import BLUE, BROWN, INK, ORANGE, PAPER, QUIET, bare, sheet
from course_lib.words import _

# Number of devices drawn per node. Further devices look the same.
DRAWN = 4
GAP = 1.3
ROWS = {"spine": 5.6, "leaf": 4.65, "adapter": 3.55, "host": 2.6, "device": 1.6, "switch": 0.7}
COLOURS = {"inside": BLUE, "host": BROWN, "between": ORANGE}


def node(cluster: Any, pcie_gb_s: float = 25.0) -> Picture:
    """Draw two nodes of a cluster (plan.CLUSTERS) with each link's bandwidth in one direction.

    `pcie_gb_s` is the bandwidth to the processor, which a cluster does not contain. Large copies
    reach 25 of the 31.5 GB/s of PCIe 4.0 with 16 lanes.
    """
    width = DRAWN + GAP
    adapters = _("each device has its own adapter")
    with sheet(height_in=5.6) as page:
        axes = bare(page.axes(title=_("Inside two nodes of {name}", name=cluster.name)))
        for place in range(2):
            _node(axes, place * width, _("node {place}", place=place + 1), cluster.devices_per_node)
        _network(axes, width)
        speeds = {
            "inside": _(
                "P2P: device, NVLink, device: {gb_per_s:.3g} GB/s", gb_per_s=cluster.within.gb_per_s
            ),
            "host": _(
                "PCIe: to the processor and its memory (SHM): {pcie_gb_s:.3g} GB/s",
                pcie_gb_s=pcie_gb_s,
            ),
            "between": _(
                "NET: adapter, leaf, adapter: {gb_per_s:.3g} GB/s", gb_per_s=cluster.across.gb_per_s
            ),
        }
        handles = [
            Line2D([], [], color=COLOURS[link], lw=3, label=speeds[link]) for link in COLOURS
        ]
        page.figure.legend(handles=handles, loc="outside lower center", ncols=1)
        axes.set_xlim(-0.6, 2 * DRAWN + GAP - 0.4)
        axes.set_ylim(0.0, 6.0)
        return page.picture(
            _(
                "Drawing of two nodes of {name}. In each node, the devices share one "
                "NVLink switch. PCIe connects them to the processor and to network "
                "adapters. Adapters with the same number share a leaf switch, called a "
                "rail. A spine switch connects the leaves, and {adapters}. {values}.",
                name=cluster.name,
                adapters=adapters,
                values="; ".join(speeds.values()),
            )
        )


def _node(axes: Axes, x: float, name: str, devices: int) -> None:
    frame = FancyBboxPatch(
        (x - 0.46, 0.12), DRAWN - 0.08, 3.82, "round,pad=0,rounding_size=0.12", fc="#f5f7f9",
        ec=QUIET, zorder=0,
    )  # fmt: skip
    axes.add_patch(frame)
    more = (
        _(" ({drawn} of {devices} devices)", drawn=DRAWN, devices=devices)
        if devices > DRAWN
        else ""
    )
    axes.text(x - 0.36, 0.2, name + more, fontsize=9, fontweight="bold", va="bottom")
    middle = x + (DRAWN - 1) / 2
    for number in range(DRAWN):
        at = x + number
        _line(axes, (at, ROWS["switch"]), (at, ROWS["device"]), "inside", 5)
        _line(axes, (at, ROWS["device"]), (at, ROWS["host"]), "host", 2)
        _line(axes, (at, ROWS["host"]), (at, ROWS["adapter"]), "host", 2)
        _box(axes, at, "device", 0.74, f"GPU {number}")
        _box(axes, at, "adapter", 0.74, f"NIC {number}")
    _box(axes, middle, "host", DRAWN - 0.26, _("PCIe switches · CPU and main memory"))
    _box(axes, middle, "switch", DRAWN - 0.26, "NVSwitch")


def _network(axes: Axes, width: float) -> None:
    """Draw one leaf switch per device number. Devices with the same number are one hop apart."""
    centre = (width + DRAWN - 1) / 2
    for number in range(DRAWN):
        leaf = centre + (number - (DRAWN - 1) / 2) * 1.5
        for place in range(2):
            end = (place * width + number, ROWS["adapter"])
            _line(axes, end, (leaf, ROWS["leaf"]), "between", 1.6)
        _line(axes, (leaf, ROWS["leaf"]), (centre, ROWS["spine"]), "between", 1.6)
        _box(axes, leaf, "leaf", 1.2, _("leaf, rail {number}", number=number))
    _box(axes, centre, "spine", 2.4, "spine")


def _line(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], link: str, width: float
) -> None:
    xs, ys = zip(start, end, strict=True)
    axes.add_line(Line2D(xs, ys, color=COLOURS[link], lw=width, zorder=1))


def _box(axes: Axes, x: float, row: str, width: float, text: str) -> None:
    box = FancyBboxPatch(
        (x - width / 2, ROWS[row] - 0.19), width, 0.38, "round,pad=0,rounding_size=0.06",
        fc=PAPER, ec=INK, lw=1.1, zorder=2,
    )  # fmt: skip
    axes.add_patch(box)
    axes.text(x, ROWS[row], text, ha="center", va="center", fontsize=9, zorder=3)
