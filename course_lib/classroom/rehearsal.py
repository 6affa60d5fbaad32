"""`course rehearse`: a rehearsal on the day before a class.

The recordings tell the shapes of the lessons' jobs. As many short jobs of each shape run at once
as there will be learners.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.site import Site
from course_lib.lab.lab import Lab
from course_lib.lab.recorded.recording import ENDING, Recording
from course_lib.lab.recorded.recording_index import FOLDER as RECORDINGS
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.publish.run import chosen
from course_lib.shipped import SHIPPED

ONE_BOX = "these jobs waited for one box. Each learner has a separate box and does not wait"
WELL = "Nothing of this stops the class."
LOG_IN = SHIPPED / "deploy/jupyterhub/log_in.py"
GIB = 1 << 30
# Largest size of a learner's runs, traces and checkpoints, if lessons clean up at their end.
OF_A_LEARNER_GIB = 0.5
MEMORY_OF_A_BOX_GIB = 2.0
REST_S = 1.0
# Time limit for the jobs of one shape.
PATIENCE_S = 600.0
# Time limit for a cancelled job to end.
END_S = 30.0
# Subfolder of the workspace's `.course`, to keep rehearsal runs apart from the learner's runs.
FOLDER = "rehearsal"
MARK = re.compile(r"^(BEGIN|END) (\d+(?:\.\d+)?)$", re.MULTILINE)
FAULT = re.compile(r"^FAULT (\w+) (.*)$", re.MULTILINE)
STAND_IN = """\
now() { python -c 'import time; print(time.time())'; }
echo "BEGIN $(now)"
port=$((10000 + SLURM_JOB_ID % 20000))
python -c "import socket; socket.socket().bind(('', $port))" ||
    echo "FAULT port $port on $(hostname)"
srun bash -c '
    touch "$COURSE_RUN_DIR/seen-by-$SLURM_NODEID" || echo "FAULT folder on $(hostname)"
    command -v python >/dev/null || echo "FAULT python on $(hostname)"'
sleep 2
echo "END $(now)"
"""


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


# For each lesson, the shapes of its jobs with their seconds in the recording.
Lessons = dict[str, list[tuple[Shape, float]]]


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


def jobs_of(numbers: list[str]) -> Lessons:
    """Return the jobs of the lessons with these numbers; of all lessons if none is named."""
    files = chosen(SHIPPED / RECORDINGS, numbers, ENDING.removeprefix("."))
    if not files:
        raise LabError(f"there is no {RECORDINGS}/ here; `course rehearse` works in a clone only")
    lessons: Lessons = {}
    for path in files:
        for run in Recording(path).manifest.runs:
            recipe = Recipe.from_dict(run.recipe)
            shape = Shape(recipe.nodes, recipe.gpus_per_node, recipe.time_limit_minutes)
            seconds = run.status.elapsed_s or 0.0
            lessons.setdefault(path.stem, []).append((shape, seconds))
    return lessons


def distinct(lessons: Lessons) -> list[Shape]:
    """Return the shapes, largest first. Of shapes that differ only in time, keep the longest."""
    found: list[Shape] = []
    for shape in sorted({shape for jobs in lessons.values() for shape, _s in jobs}, reverse=True):
        if not any(map(shape.is_like, found)):
            found.append(shape)
    return found


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
                findings += play(lab, shape, users)
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
        like = (n for n, jobs in lessons.items() if any(shape.is_like(one) for one, _s in jobs))
        which = ", ".join(name.split("_")[0] for name in like)
        what = f"{shape.words}, {shape.minutes} min (lessons {which})"
        yield checks.accepted(stand_in("rehearsal", shape), site, what)


def stand_in(name: str, shape: Shape) -> Recipe:
    made = shell.recipe(
        name, STAND_IN, nodes=shape.nodes, gpus_per_node=shape.devices_per_node,
        time_limit_minutes=shape.minutes
    )  # fmt: skip
    assert isinstance(made, Recipe)
    return made


@contextlib.contextmanager
def stage(workspace: Workspace, site: Site) -> Iterator[Lab]:
    """Provide a lab in its own folder, which is deleted at the end."""
    folder = workspace.state / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield Lab(folder, site=site, quiet=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(lab: Lab, shape: Shape, users: int) -> Iterator[Finding]:
    """Submit a job for each learner and wait. Cancel the jobs that have not ended in time."""
    runs: list[Run] = []
    refused = ""
    try:
        for number in range(users):
            try:
                run = lab.submit(stand_in(f"user{number + 1:02}", shape), again=True)
            except LabError as error:
                refused = " ".join(str(error).split())[:300]
                break
            assert isinstance(run, Run)
            runs.append(run)
        until = time.monotonic() + PATIENCE_S
        while any(not run.ended for run in runs) and time.monotonic() < until:
            time.sleep(REST_S)
    finally:
        made = [Run(lab.jobs, record) for record in lab.jobs.registry.all()]
        lab.cancel(left := [run for run in made if not run.ended])
        for run in left:
            run.wait(END_S)
    return judged(shape, users, list(map(_played, runs)), refused)


@dataclass(frozen=True)
class Played:
    """Job of one simulated learner. Times are seconds since 1970; 0 means never."""

    submitted: float
    began: float = 0.0
    ended: float = 0.0
    fault: str = ""


def _played(run: Run) -> Played:
    submitted = run.submitted_unix_s
    text = run.text if run.log_file.is_file() else ""
    times = {name: float(value) for name, value in MARK.findall(text)}
    if run.state == "CANCELLED" and "BEGIN" not in times:
        return Played(submitted, fault="did not begin in time")
    faults = [f"{kind}: {what}" for kind, what in FAULT.findall(text)]
    fault = "; ".join(faults) or ("" if run.ok else f"{run.reason}: {run.tail(2).strip()}")
    return Played(submitted, times.get("BEGIN", 0.0), times.get("END", 0.0), fault)


def judged(
    shape: Shape, users: int, played: Sequence[Played], refused: str = ""
) -> Iterator[Finding]:
    """Judge the jobs of one shape. `refused` is the cluster's message when it took no more."""
    what = f"{users} jobs at once, {shape.words}"
    if refused:
        yield bad(
            f"{what}: after {len(played)} the cluster took no more: {refused}",
            "all jobs of a rehearsal are of one account; a limit per user may not meet a class"
            if played
            else "no lesson with such jobs will run",
        )
    for fault, number in Counter(one.fault for one in played if one.fault).items():
        yield bad(f"{what}: {number} failed: {fault}", "")
    if ran := [one for one in played if one.ended]:
        at_once = max(sum(two.began <= one.began < two.ended for two in ran) for one in ran)
        last_s = max(0.0, *(one.began - one.submitted for one in ran))
        text = f"{what}: {at_once} ran at a time, the last began after {last_s:.0f} s"
        yield good(text) if at_once >= users else fair(text)


def to_book(lessons: Lessons, users: int, site: Site) -> str:
    """Say how much to reserve so that no learner waits."""
    if site.box:
        has_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
        return (
            f"to book: for {users} boxes {users * MEMORY_OF_A_BOX_GIB:g} GiB of memory, and a core "
            f"for each learner; this machine has {has_gib:.0f} GiB and {os.cpu_count()} cores"
        )
    shapes, largest = distinct(lessons), distinct(lessons)[0]
    jobs = [job for of_lesson in lessons.values() for job in of_lesson]
    device_s = sum(shape.nodes * shape.devices_per_node * seconds for shape, seconds in jobs)
    return (
        f"to book: {users * largest.nodes} nodes with {largest.devices_per_node} devices each, so "
        f"that no learner waits; half of it if learners work in pairs. The lessons use about "
        f"{users * device_s / 3600:.1f} device-hours in all (by seconds of the box); the longest "
        f"time limit is {max(shape.minutes for shape in shapes)} min"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
