"""Positions of nodes and devices in the picture of a topology."""

from __future__ import annotations

import math
from typing import Any

RADIUS = 0.34


def place(
    ranks: list[Any], hosts: dict[Any, str]
) -> tuple[dict[Any, tuple[float, float]], dict[str, tuple[float, float, float, float]]]:
    """Place the devices of a node in a row or a circle, and the nodes in rows.

    Every second row runs backwards, so that a ring through the nodes has short links.
    """
    members: dict[str, list[Any]] = {}
    for rank in ranks:
        members.setdefault(hosts[rank], []).append(rank)
    spots = {host: _spots(len(mine)) for host, mine in members.items()}
    w = max(x for each in spots.values() for x, _ in each) + 0.75
    h = max(y for each in spots.values() for _, y in each) + 1.05
    columns = _columns(len(members), (w + 1.1) / (h + 0.7))
    rows = math.ceil(len(members) / columns)
    places: dict[Any, tuple[float, float]] = {}
    boxes: dict[str, tuple[float, float, float, float]] = {}
    for number, (host, mine) in enumerate(members.items()):
        row, column = divmod(number, columns)
        column = column if row % 2 == 0 else columns - 1 - column
        x, y = column * (w + 1.1), (rows - 1 - row) * (h + 0.7)
        boxes[host] = (x, y, w, h)
        for rank, (dx, dy) in zip(mine, spots[host], strict=True):
            places[rank] = (x + dx, y + h - 0.3 - dy)
    return places, boxes


def _spots(devices: int) -> list[tuple[float, float]]:
    """Return the positions of a node's devices, from its top left corner."""
    if devices <= 2:
        return [(0.75 + 1.6 * place, 0.75) for place in range(devices)]
    radius = 1.05 / (2 * math.sin(math.pi / devices))
    turn = math.pi / devices if devices % 2 == 0 else 0.0
    return [
        (
            0.75 + radius + radius * math.sin(2 * math.pi * place / devices - turn),
            0.75 + radius - radius * math.cos(2 * math.pi * place / devices - turn),
        )
        for place in range(devices)
    ]


def _columns(nodes: int, shape: float) -> int:
    """Choose the number of columns: few empty places first, then a picture wider than high."""

    def cost(columns: int) -> float:
        rows = math.ceil(nodes / columns)
        return 0.35 * (rows * columns - nodes) + abs(math.log(columns * shape / rows / 1.7))

    return min(range(1, min(nodes, 8) + 1), key=cost)
