"""What will fail, what will be slow, what to book."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.job.site import Site
from course_lib.teach.rehearsal.places import MEMORY_OF_A_BOX_GIB
from course_lib.teach.rehearsal.shapes import Jobs, Lessons, Shape
from course_lib.teach.rehearsal.waves import Wave

SLOW_FACTOR, SLOW_MINUTES = 3, 5
Key = tuple[int, int]


def of_waves(waves: list[Wave]) -> Iterator[Finding]:
    """One finding per shape."""
    for wave in waves:
        yield from _of_wave(wave)


def _of_wave(wave: Wave) -> Iterator[Finding]:
    what = f"{wave.users} jobs at once, {wave.shape.words}"
    if wave.refused:
        yield bad(
            f"{what}: after {len(wave.played)} the cluster took no more: {_first(wave.refused)}",
            "all jobs of a rehearsal are of one account; a limit per user may not meet a class"
            if wave.played
            else "no lesson with such jobs will run",
        )
    for fault in wave.faults:
        count = sum(one.fault == fault for one in wave.played)
        yield bad(f"{what}: {count} failed: {fault}", "")
    if not wave.ran:
        return
    text = (
        f"{what}: {wave.at_once} ran at a time, they waited {_time(wave.median_wait_s)} (median), "
        f"the last {_time(wave.longest_wait_s)}"
    )
    yield good(text) if wave.at_once >= wave.users else fair(text)


def _first(text: str) -> str:
    return " ".join(text.split())[:300]


def slow(lessons: Lessons, waves: list[Wave]) -> Iterator[Finding]:
    """How long a lesson's runs take where all run them at the same time, by what ran at once."""
    at_once = {key(wave.shape): wave.at_once for wave in waves if wave.ran}
    users = max((wave.users for wave in waves), default=1)
    rows = []
    for name, jobs in lessons.items():
        if any(key(one.shape) not in at_once for one in jobs):
            continue
        alone, together = seconds(jobs, {}, 1), seconds(jobs, at_once, users)
        if together > SLOW_FACTOR * alone and together > SLOW_MINUTES * 60:
            rows.append(f"{name.split('_')[0]} ({_time(alone)} → {_time(together)})")
    if rows:
        yield fair(
            f"slow where all {users} run at once (alone → together, by seconds of the box): "
            + ", ".join(rows),
            "let learners work in pairs, or begin at different lessons, or book more (below)",
        )


def key(shape: Shape) -> Key:
    return shape.nodes, shape.devices_per_node


def needing(lessons: Lessons, shape: Shape) -> list[str]:
    """The numbers of lessons that have such jobs, of whatever time limit."""
    return [
        name.split("_")[0]
        for name, jobs in lessons.items()
        if any(key(one.shape) == key(shape) for one in jobs)
    ]


def seconds(jobs: tuple[Jobs, ...], at_once: Mapping[Key, int], users: int) -> float:
    """Of the last learner, one run after the other."""
    rounds = {one.shape: math.ceil(users / max(1, at_once.get(key(one.shape), 1))) for one in jobs}
    return sum(rounds[one.shape] * one.times * one.seconds for one in jobs)


def to_book(lessons: Lessons, users: int, site: Site) -> str:
    """For a class in which nobody waits, and what all lessons use together."""
    if site.box:
        gib = users * MEMORY_OF_A_BOX_GIB
        return f"to book: for {users} boxes {gib:g} GiB of memory, and a core for each learner"
    shapes = [one.shape for jobs in lessons.values() for one in jobs]
    if not shapes:
        return ""
    largest = max(shapes)
    hours = sum(
        one.shape.devices * one.times * one.seconds for jobs in lessons.values() for one in jobs
    )
    return (
        f"to book: {users * largest.nodes} nodes with {largest.devices_per_node} devices each, so "
        f"that nobody waits; half of it where learners work in pairs. The lessons use about "
        f"{users * hours / 3600:.1f} device-hours in all (by seconds of the box); the longest time "
        f"limit is {max(one.minutes for one in shapes)} min"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
