"""`course rehearse`: a rehearsal on the day before a class."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from course_lib.classroom.rehearsal.waves import Lessons, distinct, jobs_of, play, stage, stand_in
from course_lib.lab import clusters, workspace
from course_lib.lab.commands.common import add_site, count, parser
from course_lib.lab.doctor import checks
from course_lib.lab.doctor.findings import (
    BAD,
    FAIR,
    GOOD,
    Finding,
    bad,
    fair,
    good,
    report,
    run_checks,
    stops_no_job,
)
from course_lib.lab.errors import LabError
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import Workspace
from course_lib.shipped import SHIPPED

ONE_BOX = "these jobs waited for one box. Each learner has a separate box and does not wait"
WELL = "Nothing of this stops the class."
LOG_IN = SHIPPED / "deploy/jupyterhub/log_in.py"
GIB = 1 << 30
# Largest size of a learner's runs, traces and checkpoints, if lessons clean up at their end.
OF_A_LEARNER_GIB = 0.5
MEMORY_OF_A_BOX_GIB = 2.0


def main(argv: list[str]) -> int:
    options = parser(
        "rehearse",
        "Tests the day before whether a class will work. Submits short jobs with the lessons'\n"
        "nodes and devices, as many at once as learners will come. Says what will fail, what\n"
        "will be slow, and what to reserve. The exit code is 1 if something will fail.",
    )
    options.add_argument("--users", type=count, default=30, help="number of learners (30)")
    options.add_argument("--reservation", default="", help="reservation for the class")
    options.add_argument("--lessons", nargs="+", default=[], help="such as 00 07b; default: all")
    options.add_argument("--hub", metavar="URL", help="only log in there once as a test user")
    options.add_argument("--user", default=workspace.account(), help="name of the test user")
    add_site(options)
    given = options.parse_args(argv)
    if given.hub:
        words = [sys.executable, str(LOG_IN), given.hub, given.user]
        return subprocess.run(words, check=False).returncode
    lessons = jobs_of(given.lessons)
    if clusters.is_recorded(given.site):
        raise LabError("nothing runs here: runs are recorded ones, so there is nothing to rehearse")
    place = workspace.find()
    site = clusters.choose(place, given.site).site
    if given.reservation:
        site = site.but(reservation=given.reservation)
    clusters.put_commands_on_path(site)
    findings = rehearse(lessons, place, site, given.users)
    # First failures, then slow or notable findings, then successful checks.
    ordered = sorted(findings, key=lambda one: (BAD, FAIR, GOOD).index(one.level))
    text, is_well = report(ordered, WELL)
    print(f"{text}\n\n{to_book(lessons, given.users, site)}")
    return 0 if is_well else 1


def rehearse(lessons: Lessons, place: Workspace, site: Site, users: int) -> list[Finding]:
    """Check disk, memory and cluster. Submit jobs only if all checks pass."""
    findings = [good(f"rehearsal of {len(lessons)} lessons for {users} learners at {site.name}")]
    findings += run_checks(
        lambda: checks.site_file(site, place),
        lambda: checks.commands(site),
        lambda: disk(place, users),
        lambda: accepted(lessons, site),
    )
    if not stops_no_job(findings):
        return [*findings, bad("no jobs were sent", "cure the faults above, then rehearse again")]
    _say("one job looks at the nodes from inside …")
    nodes = max(shape.nodes for shape in distinct(lessons))
    findings += run_checks(lambda: checks.job(site, min(nodes, 2)))
    try:
        with stage(place, site) as lab:
            for shape in distinct(lessons):
                _say(f"{users} jobs at once, {shape.words} …")
                findings += play(lab, shape, users).findings()
    except LabError as error:
        findings.append(bad(f"the rehearsal could not go on: {error}", ""))
    return [*findings, fair(ONE_BOX)] if site.box else findings


def disk(place: Workspace, users: int) -> Iterator[Finding]:
    """Check that one learner's files can be written, and that all learners' files would fit."""
    try:
        place.state.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.state) as file:
            for _ in range(round(OF_A_LEARNER_GIB * 1024)):  # a quota counts written bytes
                file.write(b"\1" * (1 << 20))
    except OSError as error:
        yield bad(
            f"{OF_A_LEARNER_GIB:g} GiB cannot be written to {place.folder}: {error.strerror}",
            "every lesson needs it: free space, ask for a larger quota, or set COURSE_WORKSPACE",
        )
        return
    free_gib = shutil.disk_usage(place.folder).free / GIB
    need_gib = users * OF_A_LEARNER_GIB
    text = f"{free_gib:.1f} GiB free where {place.folder} lies; {users} learners need {need_gib:g}"
    if free_gib < need_gib:
        yield bad(text, "if all of them work on this file system: make room, or use scratch")
    else:
        yield good(text)


def accepted(lessons: Lessons, site: Site) -> Iterator[Finding]:
    """Check that Slurm accepts each shape with its time limit."""
    for shape in distinct(lessons):
        like = (n for n, jobs in lessons.items() if any(shape.is_like(j.shape) for j in jobs))
        which = ", ".join(name.split("_")[0] for name in like)
        what = f"{shape.words}, {shape.minutes} min (lessons {which})"
        yield checks.accepted(stand_in("rehearsal", shape), site, what)


def to_book(lessons: Lessons, users: int, site: Site) -> str:
    """Say how much to reserve so that no learner waits."""
    if site.box:
        has_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        return (
            f"to book: for {users} boxes {users * MEMORY_OF_A_BOX_GIB:g} GiB of memory, and a core "
            f"for each learner; this machine has {has_gib:.0f} GiB and {os.cpu_count()} cores"
        )
    largest, *rest = distinct(lessons)
    hours = users * sum(job.device_hours for jobs in lessons.values() for job in jobs)
    return (
        f"to book: {users * largest.nodes} nodes with {largest.devices_per_node} devices each, so "
        f"that no learner waits; half of it if learners work in pairs. The lessons use about "
        f"{hours:.1f} device-hours in all (by seconds of the box); the longest time limit is "
        f"{max(shape.minutes for shape in (largest, *rest))} min"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
