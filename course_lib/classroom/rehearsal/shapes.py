"""Nodes, devices and minutes of each lesson's jobs, from the recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.recorded.recording import ENDING, Recording
from course_lib.lab.recorded.recording_index import FOLDER
from course_lib.publish.building.source import lessons_in, number_of
from course_lib.shipped import SHIPPED


@dataclass(frozen=True, order=True)
class Shape:
    """Resources requested from Slurm."""

    nodes: int
    devices_per_node: int
    minutes: int

    @property
    def words(self) -> str:
        nodes = f"{self.nodes} node{'s' * (self.nodes > 1)}"
        if not self.devices_per_node:
            return f"{nodes} without devices"
        each = " each" * (self.nodes > 1)
        return f"{nodes}, {self.devices_per_node} device{'s' * (self.devices_per_node > 1)}{each}"

    def is_like(self, other: Shape) -> bool:
        """Return whether both shapes have the same nodes and devices."""
        return (self.nodes, self.devices_per_node) == (other.nodes, other.devices_per_node)


@dataclass(frozen=True)
class Job:
    """Job of a lesson; `seconds` is its duration in the recording."""

    shape: Shape
    seconds: float

    @property
    def device_hours(self) -> float:
        return self.shape.nodes * self.shape.devices_per_node * self.seconds / 3600


Lessons = dict[str, list[Job]]


def chosen(numbers: Sequence[str]) -> Lessons:
    """Return the jobs of the lessons with these numbers; of all lessons if none is named."""
    every = lessons_in(SHIPPED / FOLDER, ENDING.removeprefix("."))
    files = {number_of(path): path for path in every}
    if not files:
        raise LabError(f"there is no {FOLDER}/ here; `course rehearse` works in a clone only")
    if unknown := [number for number in numbers if number not in files]:
        raise LabError(f"no lesson {', '.join(unknown)} runs jobs; there are: {', '.join(files)}")
    wanted = {number: path for number, path in files.items() if number in numbers or not numbers}
    return {path.stem: _jobs(Recording(path)) for path in wanted.values()}


def _jobs(recording: Recording) -> list[Job]:
    jobs = []
    for run in recording.manifest.runs:
        recipe = Recipe.from_dict(run.recipe)
        shape = Shape(recipe.nodes, recipe.gpus_per_node, recipe.time_limit_minutes)
        jobs.append(Job(shape, float(run.status.get("elapsed_s") or 0.0)))
    return jobs


def distinct(lessons: Lessons) -> list[Shape]:
    """Return the shapes, largest first. Of shapes that differ only in time, keep the longest."""
    found: list[Shape] = []
    for shape in sorted({job.shape for jobs in lessons.values() for job in jobs}, reverse=True):
        if not any(map(shape.is_like, found)):
            found.append(shape)
    return found
