"""Short jobs in the place of a lesson's, of the same shape, by as many at once as will come."""

from __future__ import annotations

import contextlib
import re
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.site import Site
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.teach.rehearsal.shapes import Shape

STAND_IN_S = 2
REST_S = 1.0
END_S = 30.0
"""In which a cancelled job is over."""
FOLDER = "rehearsal"
"""In the workspace's `.course`: the runs of a rehearsal are no runs of the learner."""
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
sleep @SECONDS@
echo "END $(now)"
"""


@dataclass(frozen=True)
class Played:
    """What became of one simulated learner's job; times are seconds since 1970, 0 for never."""

    submitted: float
    began: float = 0.0
    ended: float = 0.0
    fault: str = ""

    @property
    def wait_s(self) -> float:
        return max(0.0, self.began - self.submitted) if self.began else 0.0


@dataclass(frozen=True)
class Wave:
    """As many jobs of one shape at once as there are learners."""

    shape: Shape
    users: int
    played: tuple[Played, ...]
    refused: str = ""
    """What the cluster said when it took no more; those that it took are in `played`."""

    @property
    def ran(self) -> tuple[Played, ...]:
        return tuple(one for one in self.played if one.ended)

    @property
    def waits_s(self) -> list[float]:
        return [one.wait_s for one in self.ran]

    @property
    def median_wait_s(self) -> float:
        return statistics.median(self.waits_s) if self.ran else 0.0

    @property
    def longest_wait_s(self) -> float:
        return max(self.waits_s, default=0.0)

    @property
    def at_once(self) -> int:
        """How many ran at the same time, at most."""
        moments = [(one.began, 1) for one in self.ran] + [(one.ended, -1) for one in self.ran]
        most = now = 0
        for _, change in sorted(moments):
            now += change
            most = max(most, now)
        return most

    @property
    def faults(self) -> list[str]:
        return sorted({one.fault for one in self.played if one.fault})


def stand_in(name: str, shape: Shape) -> Recipe:
    made = shell.recipe(
        name,
        STAND_IN.replace("@SECONDS@", str(STAND_IN_S)),
        nodes=shape.nodes,
        gpus_per_node=shape.devices_per_node,
        time_limit_minutes=shape.minutes,
    )
    assert isinstance(made, Recipe)
    return made


@dataclass
class Stage:
    """The lab of a rehearsal, in a folder of its own that goes when it is over."""

    workspace: Workspace
    site: Site

    def __enter__(self) -> Stage:
        self.folder = self.workspace.state / FOLDER
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lab = Lab(self.folder, site=self.site, quiet=True)
        return self

    def __exit__(self, *_: object) -> None:
        """No job outlives its rehearsal, however that ended."""
        with contextlib.suppress(LabError):  # a cluster that does not answer any more
            left = [run for run in self._runs() if not run.ended]
            self.lab.cancel(left)
            for run in left:
                run.wait(END_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _runs(self) -> list[Run]:
        return [Run(self.lab.jobs, record) for record in self.lab.jobs.registry.all()]

    def play(self, shape: Shape, users: int, patience_s: float) -> Wave:
        """Submits for all users, then waits for all; what has not begun by then is cancelled."""
        submitted: list[tuple[float, Run]] = []
        refused = ""
        for number in range(users):
            asked = time.time()
            try:
                run = self.lab.submit(stand_in(f"user{number + 1:02}", shape), again=True)
            except LabError as error:
                refused = str(error)
                break
            assert isinstance(run, Run)
            submitted.append((asked, run))
        self._await([run for _, run in submitted], patience_s)
        played = tuple(_played(asked, run) for asked, run in submitted)
        return Wave(shape, users, played, refused)

    def _await(self, runs: Sequence[Run], patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while any(not run.ended for run in runs) and time.monotonic() < until:
            time.sleep(REST_S)
        if left := [run for run in runs if not run.ended]:
            self.lab.cancel(left)


def _played(submitted: float, run: Run) -> Played:
    if not run.ended:
        return Played(submitted, fault=f"never ended: {run.reason}")
    text = run.text if run.log_file.is_file() else ""
    times = {name: float(value) for name, value in MARK.findall(text)}
    faults = [f"{kind}: {what}" for kind, what in FAULT.findall(text)]
    if run.state == "CANCELLED" and "BEGIN" not in times:
        return Played(submitted, fault="did not begin in time")
    fault = "; ".join(faults) or ("" if run.ok else f"{run.reason}: {run.tail(2).strip()}")
    return Played(submitted, times.get("BEGIN", 0.0), times.get("END", 0.0), fault)
