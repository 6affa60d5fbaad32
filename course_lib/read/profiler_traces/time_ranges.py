"""Arithmetic with intervals of time, all at once in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ranges:
    """Intervals; may overlap until `merged`."""

    start: Floats
    end: Floats

    @staticmethod
    def none() -> Ranges:
        return Ranges(np.zeros(0), np.zeros(0))

    def merged(self) -> Ranges:
        if not len(self.start):
            return self
        order = np.argsort(self.start, kind="stable")
        start, end = self.start[order], np.maximum.accumulate(self.end[order])
        first = np.concatenate(([True], start[1:] > end[:-1]))
        last = np.concatenate((first[1:], [True]))
        return Ranges(start[first], end[last])

    def plus(self, other: Ranges) -> Ranges:
        return Ranges(
            np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end])
        )

    @property
    def total(self) -> float:
        merged = self.merged()
        return float((merged.end - merged.start).sum())


class Timeline:
    """Cuts time at every edge of every set, so that each piece is inside or outside of each."""

    def __init__(self, sets: Sequence[Ranges]) -> None:
        edges = [edge for item in sets for edge in (item.start, item.end)]
        self.edges: Floats = np.unique(np.concatenate(edges)) if edges else np.zeros(0)
        self.lengths = np.diff(self.edges)
        self.covered = [self._cover(item) for item in sets]

    def _cover(self, item: Ranges) -> Bools:
        change = np.zeros(max(len(self.edges), 1), np.int64)
        np.add.at(change, np.searchsorted(self.edges, item.start), 1)
        np.add.at(change, np.searchsorted(self.edges, item.end), -1)
        return np.cumsum(change)[:-1] > 0

    def sums(self, pieces: Bools, steps: Ranges) -> Floats:
        """Time of the chosen pieces within each step; steps must be among the sets."""
        if not len(self.edges):
            return np.zeros(len(steps.start))
        running = np.concatenate(([0.0], np.cumsum(np.where(pieces, self.lengths, 0.0))))
        first, last = (
            np.searchsorted(self.edges, steps.start),
            np.searchsorted(self.edges, steps.end),
        )
        return np.asarray(running[last] - running[first], np.float64)
