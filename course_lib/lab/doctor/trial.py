"""A small job that checks the cluster from inside."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.lab.doctor.findings import BAD, Finding, bad, fair, good
from course_lib.lab.errors import StillRunningError
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.site import Site
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run
from course_lib.words import N_, _

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
    "name": N_(
        "nodes cannot reach each other by this name; set host_suffix in "
        "site.toml, or ask the administrators"
    ),
    "folder": N_(
        "the workspace must lie on a file system that all nodes share; set COURSE_WORKSPACE"
    ),
    "torch": N_("load the software with commands, venv or container in [setup] of site.toml"),
}

CURE_OF_THE_BOX = N_(
    "install a C compiler (cc), so that the box can give nodes host names "
    "in flat mode. The course's own programs do not need it"
)


def job(site: Site, nodes: int = 2, *, leave_it: bool = True) -> Iterator[Finding]:
    """Run the test job. With `leave_it`, a job that waits for too long stays in the queue."""
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
        yield bad(
            str(error),
            _(
                "`course log {job_id} -f` follows the job, and `course runs` shows why it waits",
                job_id=run.job_id,
            ),
        )
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
        there = sum(path.exists() for path in seen)
        yield bad(
            _("this machine sees the files of only {value} nodes", value=there), CURES["folder"]
        )
    elif not run.ok:
        yield bad(
            _("the test job: {reason}\n{value}", reason=run.reason, value=run.tail(5)),
            _("read the log lines above"),
        )
    elif not stopped:
        hosts = ", ".join(sorted(line.split()[1] for line in here))
        what = _("shared folder and torch") if told else _("host names, shared folder and torch")
        yield good(_("a job ran on {hosts}, and {what} work", hosts=hosts, what=what))


def _fault(line: str, box: bool) -> Finding:
    _unused, kind, *rest = line.split()
    text = _("in a job: {kind} {rest}", kind=kind, rest=" ".join(rest))
    if box and kind == "name":
        return fair(text, CURE_OF_THE_BOX)
    return bad(text, CURES.get(kind, ""))
