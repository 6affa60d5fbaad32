"""Checks of the doctor: this machine, the cluster with its own commands, and a small job.

If a command gives no answer, the check says so.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from course_lib.lab import clusters
from course_lib.lab.doctor.findings import BAD, Finding, bad, fair, good
from course_lib.lab.errors import LabError, SlurmError, StillRunningError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.script import render
from course_lib.lab.job.site import Site
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.lab import Lab
from course_lib.lab.queue.slurm import Slurm, job_environment, pace_line
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.words import N_, _, language

GIB = 1 << 30
SPACE_NEEDED_GIB, SPACE_WISHED_GIB = 0.2, 2.0


def packages() -> Iterator[Finding]:
    """Check installed packages by their records. Importing them would take seconds."""
    needed = (
        "torch", "jupyterlab", "ipywidgets", "matplotlib", "pandas", "jinja2", "tensorboard",
        "jupyter-server-proxy", "torch-tb-profiler",
    )  # fmt: skip
    missing = [name for name in needed if not _version(name)]
    if missing:
        yield bad(
            _("not installed: {missing}", missing=", ".join(missing)),
            _("run `make setup` or `pip install .`"),
        )
    if torch := _version("torch"):
        yield good(f"torch {torch}")


def folder(place: Workspace) -> Iterator[Finding]:
    target = place.folder
    try:
        place.state.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.state) as file:
            file.write(b"x")
        with place.locked():
            pass
    except Exception as error:  # all failures get the same answer
        cure = _("work in a folder of your own, or set COURSE_WORKSPACE to one")
        yield bad(
            _("workspace {target} cannot be written: {error}", target=target, error=error), cure
        )
        return
    free_gib = shutil.disk_usage(target).free / GIB
    text = _("workspace {target}, {free_gib:.1f} GiB free", target=target, free_gib=free_gib)
    if free_gib < SPACE_NEEDED_GIB:
        yield bad(text, _("`course clean` shows how much space old runs use"))
    elif free_gib < SPACE_WISHED_GIB:
        yield fair(
            text, _("checkpoints may not fit; `course clean` lists runs that you can delete")
        )
    else:
        yield good(text)


def fonts() -> Iterator[Finding]:
    """Check for a font for Korean figures, because matplotlib's DejaVu has no Korean letters."""
    if language() != "ko":
        return
    from course_lib.show.style import fonts_with_korean

    if found := fonts_with_korean():
        yield good(_("figures use the Korean font {found}", found=found[0]))
    else:
        yield fair(
            _("no Korean font is installed, so figures show boxes instead of letters"),
            _("install a font, such as the package fonts-noto-cjk or fonts-nanum"),
        )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol", "sacct")
NODES_ASKED = 2


def site_file(site: Site, place: Workspace) -> Iterator[Finding]:
    if site.missing:
        cure = _("write it into {site_file}", site_file=place.site_file)
        if not place.site_file.exists():
            cure = _(
                "`course site use {name}` creates {site_file}; write it there",
                name=site.name,
                site_file=place.site_file,
            )
        yield bad(
            _(
                "site {name} still needs {missing}",
                name=site.name,
                missing=", ".join(site.missing),
            ),
            cure,
        )
    elif not site.box:
        yield good(_("site {name} is complete", name=site.name))


def commands(site: Site) -> Iterator[Finding]:
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        cure = _("log in to a node with these commands; on some clusters, run `module load slurm`")
        yield bad(_("not on the PATH: {missing}", missing=", ".join(missing)), cure)
        return
    version = Slurm().call("sinfo", "--version").strip()
    try:
        Slurm().call("sinfo", "--noheader")
    except SlurmError as error:
        yield bad(
            _("the cluster does not answer: {said}", said=error.said),
            _("start it, or try again later"),
        )
    else:
        yield good(_("the cluster answers ({version})", version=version))


def network() -> Iterator[Finding]:
    """Check whether the nodes of the box have their own networks. sinfo prints the reason."""
    done = clusters.sinfo()
    if told := clusters.FLAT.search(done.stderr):
        yield fair(told["why"], f"{told['cure']}; {FLAT_MEANS}")
    elif done.returncode == 0:
        yield good(_("each node of the box has its own network and host name"))


FLAT_MEANS = N_("until then all lessons run, but the bandwidth of the link cannot be limited")


def pace() -> Iterator[Finding]:
    """Report the rate of a slot of the box if slots are slowed down."""
    if told := pace_line():
        share = _("computes at 1/{told} of the rate of a core", told=told["factor"])
        if told["factor"] == "1":
            share = _("computes at the rate of a core")
        why, _unused, since = told["why"].partition("; ")
        text = _(
            "a device slot {share}, even if other slots are idle ({why})", share=share, why=why
        )
        yield fair(text, since) if since else good(text)


def would_run(site: Site) -> Iterator[Finding]:
    """Check that Slurm would accept a typical job of the lessons."""
    devices = 1 if site.ask != "none" else 0
    recipe = shell.recipe("doctor", "true", nodes=NODES_ASKED, gpus_per_node=devices)
    assert not isinstance(recipe, Unfinished)
    yield accepted(recipe, site, _("a job on {wanted} nodes", wanted=NODES_ASKED))


def accepted(recipe: Recipe, site: Site, what: str) -> Finding:
    """Ask Slurm whether it would accept a job. Nothing is submitted."""
    try:
        Slurm().test(render(recipe, site).text, job_environment(os.environ))
    except LabError as error:
        return bad(_("the cluster would refuse {what}: {error}", what=what, error=error), "")
    return good(_("the cluster would accept {what}", what=what))


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
