"""The shapes of the lessons' jobs in the recordings, and short jobs with the same shapes.

As many jobs run at once as there will be learners.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.lab.doctor.findings import Finding, bad, fair, good
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


@dataclass(frozen=True)
class Job:
    """Job of a lesson; `seconds` is its duration in the recording."""

    shape: Shape
    seconds: float

    @property
    def device_hours(self) -> float:
        return self.shape.nodes * self.shape.devices_per_node * self.seconds / 3600


Lessons = dict[str, list[Job]]


def jobs_of(numbers: list[str]) -> Lessons:
    """Return the jobs of the lessons with these numbers; of all lessons if none is named."""
    files = chosen(SHIPPED / RECORDINGS, numbers, ENDING.removeprefix("."))
    if not files:
        raise LabError(f"there is no {RECORDINGS}/ here; `course rehearse` works in a clone only")
    return {path.stem: _jobs(Recording(path)) for path in files}


def _jobs(recording: Recording) -> list[Job]:
    jobs = []
    for run in recording.manifest.runs:
        recipe = Recipe.from_dict(run.recipe)
        shape = Shape(recipe.nodes, recipe.gpus_per_node, recipe.time_limit_minutes)
        jobs.append(Job(shape, run.status.elapsed_s or 0.0))
    return jobs


def distinct(lessons: Lessons) -> list[Shape]:
    """Return the shapes, largest first. Of shapes that differ only in time, keep the longest."""
    found: list[Shape] = []
    for shape in sorted({job.shape for jobs in lessons.values() for job in jobs}, reverse=True):
        if not any(map(shape.is_like, found)):
            found.append(shape)
    return found


@dataclass(frozen=True)
class Played:
    """Job of one simulated learner. Times are seconds since 1970; 0 means never."""

    submitted: float
    began: float = 0.0
    ended: float = 0.0
    fault: str = ""


@dataclass(frozen=True)
class Wave:
    """Simultaneous jobs of one shape, one per learner."""

    shape: Shape
    users: int
    played: tuple[Played, ...]
    # The cluster's message when it refused a job. `played` holds the jobs that it accepted.
    refused: str = ""

    def findings(self) -> Iterator[Finding]:
        what = f"{self.users} jobs at once, {self.shape.words}"
        if self.refused:
            yield bad(
                f"{what}: after {len(self.played)} the cluster took no more: {self.refused}",
                "all jobs of a rehearsal are of one account; a limit per user may not meet a class"
                if self.played
                else "no lesson with such jobs will run",
            )
        for fault, count in Counter(one.fault for one in self.played if one.fault).items():
            yield bad(f"{what}: {count} failed: {fault}", "")
        if ran := [one for one in self.played if one.ended]:
            at_once = max(sum(two.began <= one.began < two.ended for two in ran) for one in ran)
            last_s = max(one.began - one.submitted for one in ran)
            text = f"{what}: {at_once} ran at a time, the last began after {last_s:.0f} s"
            yield good(text) if at_once >= self.users else fair(text)


def stand_in(name: str, shape: Shape) -> Recipe:
    made = shell.recipe(
        name, STAND_IN, nodes=shape.nodes, gpus_per_node=shape.devices_per_node,
        time_limit_minutes=shape.minutes
    )  # fmt: skip
    assert isinstance(made, Recipe)
    return made


@contextlib.contextmanager
def stage(workspace: Workspace, site: Site) -> Iterator[Lab]:
    """Provide a lab in its own folder. At the end, cancel its jobs and delete the folder."""
    folder = workspace.state / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    lab = Lab(folder, site=site, quiet=True)
    try:
        yield lab
    finally:
        with contextlib.suppress(LabError):  # the cluster may have stopped answering
            _cancel(lab, [Run(lab.jobs, record) for record in lab.jobs.registry.all()])
        shutil.rmtree(folder, ignore_errors=True)


def play(lab: Lab, shape: Shape, users: int) -> Wave:
    """Submit a job for each learner and wait. Cancel the jobs that have not ended in time."""
    submitted: list[tuple[float, Run]] = []
    refused = ""
    for number in range(users):
        asked = time.time()
        try:
            run = lab.submit(stand_in(f"user{number + 1:02}", shape), again=True)
        except LabError as error:
            refused = " ".join(str(error).split())[:300]
            break
        assert isinstance(run, Run)
        submitted.append((asked, run))
    until = time.monotonic() + PATIENCE_S
    while any(not run.ended for _, run in submitted) and time.monotonic() < until:
        time.sleep(REST_S)
    _cancel(lab, [run for _, run in submitted])
    return Wave(shape, users, tuple(_played(asked, run) for asked, run in submitted), refused)


def _cancel(lab: Lab, runs: list[Run]) -> None:
    left = [run for run in runs if not run.ended]
    lab.cancel(left)
    for run in left:
        run.wait(END_S)


def _played(submitted: float, run: Run) -> Played:
    text = run.text if run.log_file.is_file() else ""
    times = {name: float(value) for name, value in MARK.findall(text)}
    if run.state == "CANCELLED" and "BEGIN" not in times:
        return Played(submitted, fault="did not begin in time")
    faults = [f"{kind}: {what}" for kind, what in FAULT.findall(text)]
    fault = "; ".join(faults) or ("" if run.ok else f"{run.reason}: {run.tail(2).strip()}")
    return Played(submitted, times.get("BEGIN", 0.0), times.get("END", 0.0), fault)
