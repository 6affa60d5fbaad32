"""A small job that looks at the cluster from inside."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.lab.doctor.findings import BAD, Finding, bad, fair, good
from course_lib.lab.errors import StillRunningError
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.site import Site
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run

PATIENCE_S = 300.0
LOOK = """\
srun bash -c '
    for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
        getent hosts "$host@SUFFIX@" >/dev/null || echo "FAULT name $host@SUFFIX@ on $(hostname)"
    done
    touch "$COURSE_RUN_DIR/seen-by-$SLURM_NODEID" || echo "FAULT folder on $(hostname)"
    python -c "import torch" || echo "FAULT torch on $(hostname)"
    echo "HERE $(hostname)"'
"""
CURES = {
    "name": "nodes do not find each other by this name; set host_suffix in site.toml, or ask the "
    "administrators",
    "folder": "the workspace must lie on a file system that all nodes share; set COURSE_WORKSPACE",
    "torch": "load the software in site.toml: [setup] commands, venv or container",
}

CURE_OF_THE_BOX = (
    "install a C compiler (cc), with which the box makes names known to programs in flat mode; "
    "programs of the course do without"
)


def job(site: Site, *, leave_it: bool = True) -> Iterator[Finding]:
    """`leave_it`: where it waits for too long, it may still run later, and tell."""
    nodes = min(2, site.max_nodes or 2)
    devices = 1 if site.ask != "none" else 0
    recipe = shell.recipe(
        "doctor", LOOK.replace("@SUFFIX@", site.host_suffix), nodes=nodes, gpus_per_node=devices
    )
    lab = Lab(site=site, quiet=True)
    run = lab.submit(recipe, again=True)
    assert isinstance(run, Run)
    try:
        run.wait(PATIENCE_S)
    except StillRunningError as error:
        if not leave_it:
            lab.cancel(run)
        yield bad(str(error), f"`course log {run.job_id} -f` follows it; `course queue` says why")
        return
    yield from _judge(run, nodes, site.box)
    lab.clean(run, yes=True)


def _judge(run: Run, nodes: int, box: bool) -> Iterator[Finding]:
    faults = sorted({line for line in run.text.splitlines() if line.startswith("FAULT")})
    told = [_fault(line, box) for line in faults]
    yield from told
    stopped = any(finding.level == BAD for finding in told)
    here = [line for line in run.text.splitlines() if line.startswith("HERE")]
    seen = [run.folder / f"seen-by-{number}" for number in range(nodes)]
    if not all(path.exists() for path in seen) and not stopped:
        yield bad(f"the files of only {sum(p.exists() for p in seen)} nodes are seen here",
                  CURES["folder"])  # fmt: skip
    elif not run.ok:
        yield bad(f"the test job: {run.reason}\n{run.tail(5)}", "see its lines above")
    elif not stopped:
        hosts = ", ".join(sorted(line.split()[1] for line in here))
        what = "shared folder and torch" if told else "names, shared folder and torch"
        yield good(f"a job ran on {hosts}: {what} are in order")


def _fault(line: str, box: bool) -> Finding:
    _, kind, *rest = line.split()
    text = f"in a job: {kind} {' '.join(rest)}"
    if box and kind == "name":
        return fair(text, CURE_OF_THE_BOX)
    return bad(text, CURES.get(kind, ""))
