"""Groups of ranks that an order string such as "tp-cp-ep-dp-pp" defines."""

from __future__ import annotations

from course_lib.plan.checks import expect, one_of
from course_lib.plan.shapes.layout import DIMENSIONS, Layout

SIZE_NAMES = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}


def coordinates(layout: Layout, rank: int) -> dict[str, int]:
    """Return a rank's coordinate in each dimension; the first word of the order varies fastest."""
    place = {}
    for word in layout.order.split("-"):
        size = getattr(layout, SIZE_NAMES[word]) if word in SIZE_NAMES else 1
        place[word] = rank % size
        rank //= size
    for word in SIZE_NAMES:
        place.setdefault(word, 0)
    return place


def groups(layout: Layout, *dimensions: str) -> list[list[int]]:
    """Return lists of ranks that differ only in the named dimensions, each in rank order."""
    expect(Layout, "layout", layout, "plan.Layout(data=4)")
    for dimension in dimensions:
        one_of("dimension", dimension, DIMENSIONS)
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(layout.devices):
        place = coordinates(layout, rank)
        key = tuple(value for word, value in sorted(place.items()) if word not in dimensions)
        found.setdefault(key, []).append(rank)
    return sorted(found.values())


def stride(layout: Layout, dimension: str) -> int:
    """Return the distance in ranks between neighbours of a group of this dimension."""
    step = 1
    for word in layout.order.split("-"):
        if word == dimension:
            return step
        step *= getattr(layout, SIZE_NAMES[word]) if word in SIZE_NAMES else 1
    return step


def devices_of_group_per_node(layout: Layout, dimension: str, devices_per_node: int) -> int:
    """Return how many members of a group of this dimension share a node (nodes fill in order)."""
    size = int(getattr(layout, SIZE_NAMES[dimension]))
    step = stride(layout, dimension)
    return max(1, min(size, devices_per_node // step))
