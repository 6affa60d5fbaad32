"""What every lesson asks of a cluster: how many nodes and devices, how long, how often.

`shapes.toml` is learned from a workspace in which `course run` ran all lessons
(`course rehearse --learn WORKSPACE`), so it says what they did and not what somebody believes.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Record
from course_lib.lab.workspace import Workspace, write_atomically
from course_lib.read.slurm_output.hostlist import expand_hosts
from course_lib.teach.recording import by_lesson

FILE = Path(__file__).with_name("shapes.toml")
HEAD = """\
# What each lesson submits: nodes, devices on each, time limit in minutes, how often, and how many
# seconds such a job takes on the box (median). Made by `course rehearse --learn WORKSPACE`.
"""


@dataclass(frozen=True, order=True)
class Shape:
    """What Slurm is asked for."""

    nodes: int
    devices_per_node: int
    minutes: int

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def words(self) -> str:
        nodes = f"{self.nodes} node{'s' * (self.nodes > 1)}"
        if not self.devices_per_node:
            return f"{nodes} without devices"
        each = " each" * (self.nodes > 1)
        return f"{nodes}, {self.devices_per_node} device{'s' * (self.devices_per_node > 1)}{each}"


@dataclass(frozen=True)
class Jobs:
    """Those of one shape in one lesson."""

    shape: Shape
    times: int
    seconds: float


Lessons = dict[str, tuple[Jobs, ...]]


def known() -> Lessons:
    """By the name of the lesson, in the order of the course."""
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {
        lesson: tuple(Jobs(Shape(*row[:3]), row[3], float(row[4])) for row in rows["jobs"])
        for lesson, rows in table.items()
    }


def chosen(words: Sequence[str]) -> Lessons:
    """Those whose number or name begins so; all where none is named."""
    lessons = known()
    found = {}
    for word in words:
        begun = {name: jobs for name, jobs in lessons.items() if name.split("_")[0] == word}
        begun = begun or {name: jobs for name, jobs in lessons.items() if name.startswith(word)}
        if not begun:
            numbers = ", ".join(name.split("_")[0] for name in lessons)
            raise LabError(f"{word!r} begins no lesson that runs jobs; there are: {numbers}")
        found.update(begun)
    return {name: jobs for name, jobs in lessons.items() if name in found or not words}


def distinct(lessons: Lessons) -> list[Shape]:
    """Each once, the largest first; of those that differ in time alone the longest."""
    longest: dict[tuple[int, int], Shape] = {}
    for jobs in lessons.values():
        for one in jobs:
            key = (one.shape.nodes, one.shape.devices_per_node)
            longest[key] = max(longest.get(key, one.shape), one.shape)
    return sorted(longest.values(), reverse=True)


def learn(workspaces: Iterable[Path]) -> Lessons:
    """From the jobs that executed lessons left records of; a later workspace over an earlier."""
    found: Lessons = {}
    for place in workspaces:
        for lesson, records in by_lesson(Workspace(place)).items():
            if jobs := _jobs(records):
                found[lesson] = jobs
    return dict(sorted(found.items()))


def _jobs(records: Sequence[Record]) -> tuple[Jobs, ...]:
    seconds: dict[Shape, list[float]] = {}
    for record in records:
        status = record.status
        if status is None or not status.nodes or not record.time_limit_minutes:
            continue
        nodes = len(expand_hosts(status.nodes))
        shape = Shape(nodes, record.devices // nodes, record.time_limit_minutes)
        seconds.setdefault(shape, []).append(status.elapsed_s or 0.0)
    return tuple(
        Jobs(shape, len(all_s), round(statistics.median(all_s), 1))
        for shape, all_s in sorted(seconds.items(), reverse=True)
    )


def keep(lessons: Lessons, file: Path = FILE) -> None:
    """Lessons that were not learned anew stay as they are."""
    kept = {**(known() if file.exists() else {}), **lessons}
    parts = [HEAD]
    for name, jobs in sorted(kept.items()):
        rows = [
            (j.shape.nodes, j.shape.devices_per_node, j.shape.minutes, j.times, j.seconds)
            for j in jobs
        ]
        lines = "".join(f"    [{', '.join(f'{number:g}' for number in row)}],\n" for row in rows)
        parts.append(f"[{name}]\njobs = [\n{lines}]\n")
    write_atomically(file, "\n".join(parts))
