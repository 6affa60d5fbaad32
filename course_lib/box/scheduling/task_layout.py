"""Which task of a step runs on which node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """The nodes of a step, in order."""

    places: tuple[int, ...]
    """Position of each node in the job's allocation."""
    tasks: tuple[tuple[int, ...], ...]
    """Task numbers on each node."""
    cpus: tuple[int, ...]
    """CPUs of the step on each node."""
    devices: tuple[tuple[int, ...], ...] = ()
    """Those of the step on each node, as the node numbers them."""

    @property
    def counts(self) -> list[int]:
        return [len(tasks) for tasks in self.tasks]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def tasks_on(self, node: int) -> list[int]:
        return list(self.tasks[node])

    def node_of(self, task: int) -> int:
        return next(node for node, tasks in enumerate(self.tasks) if task in tasks)


def spread(counts: list[int], at_once: int) -> tuple[tuple[int, ...], ...]:
    """Numbers the tasks in turns over the nodes, each getting so many at once (all of them: block,
    one: cyclic)."""
    tasks: list[list[int]] = [[] for _ in counts]
    number = 0
    while number < sum(counts):
        for node, count in enumerate(counts):
            take = min(at_once, count - len(tasks[node]))
            tasks[node] += range(number, number + take)
            number += take
    return tuple(map(tuple, tasks))


def share(total: int, capacity: list[int]) -> list[int]:
    """How many tasks each node gets: one in turn, where there is room; where there is none, too."""
    counts = [1] * len(capacity)
    left = total - len(capacity)
    while left > 0:
        room = [node for node, most in enumerate(capacity) if counts[node] < most]
        for node in (room or range(len(capacity)))[:left]:
            counts[node] += 1
            left -= 1
    return counts
