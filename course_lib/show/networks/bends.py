"""Lines that pass the circles on their way."""

from __future__ import annotations

import math

from course_lib.show.networks.places import RADIUS

Point = tuple[float, float]
CLEAR = 0.2
"""So far from a circle a line is seen to pass it."""


def free_bend(start: Point, end: Point, others: list[Point]) -> float:
    """How far the line has to bend so that it does not seem to end at a rank on its way."""
    bends = (0.0, 0.12, -0.12, 0.25, -0.25, 0.4, -0.4)
    return max(
        bends, key=lambda bend: (min(_clearance(start, end, bend, others), CLEAR), -abs(bend))
    )


def _clearance(start: Point, end: Point, bend: float, others: list[Point]) -> float:
    """From the nearest circle; the line is matplotlib's arc3, a parabola."""
    (x1, y1), (x2, y2) = start, end
    middle = ((x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1))
    found = [CLEAR]
    for part in range(1, 20):
        t = part / 20
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        at = (a * x1 + b * middle[0] + c * x2, a * y1 + b * middle[1] + c * y2)
        found += [math.dist(at, other) - RADIUS for other in others]
    return min(found)
