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
from course_lib.lab.lab import Lab
from course_lib.lab.queue.slurm import Slurm, job_environment, pace_line
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.words import N_, _, language

GIB = 1 << 30
SPACE_WISHED_GIB = 2.0


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
    if free_gib < SPACE_WISHED_GIB:
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

    if not fonts_with_korean():
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
        names = ", ".join(site.missing)
        cure = _(
            "write it into {site_file}; `course site use {name}` creates this file",
            site_file=place.site_file,
            name=site.name,
        )
        yield bad(_("site {name} still needs {missing}", name=site.name, missing=names), cure)
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
    what = _("a job on {wanted} nodes", wanted=NODES_ASKED)
    yield accepted(_test_job(site, NODES_ASKED), site, what)


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
    hostname >"$COURSE_RUN_DIR/host-$SLURM_NODEID" || echo "FAULT folder on $(hostname)"
    python -c "import torch" || echo "FAULT torch on $(hostname)"'
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


def _test_job(site: Site, nodes: int) -> Recipe:
    look, devices = LOOK.replace("@SUFFIX@", site.host_suffix), 1 if site.ask != "none" else 0
    recipe = shell.recipe("doctor", look, nodes=nodes, gpus_per_node=devices)
    assert isinstance(recipe, Recipe)
    return recipe


def job(site: Site, nodes: int = NODES_ASKED) -> Iterator[Finding]:
    """Run the test job. A job that waits for too long is cancelled."""
    lab = Lab(site=site, quiet=True)
    run = lab.submit(_test_job(site, nodes), again=True)
    assert isinstance(run, Run)
    try:
        run.wait(PATIENCE_S)
    except StillRunningError:
        words = run.status.words
        lab.cancel(run)
        yield bad(
            _(
                "the test job did not end within {seconds:g} s and was cancelled; it was {words}",
                seconds=PATIENCE_S,
                words=words,
            ),
            _("`sinfo` shows which nodes are free; try again later"),
        )
        return
    yield from _judge(run, nodes, site.box)
    lab.clean(run, yes=True)


def _judge(run: Run, nodes: int, box: bool) -> Iterator[Finding]:
    faults = sorted({line for line in run.text.splitlines() if line.startswith("FAULT")})
    told = [_fault(line, box) for line in faults]
    yield from told
    stopped = any(finding.level == BAD for finding in told)
    hosts = sorted(path.read_text().strip() for path in run.folder.glob("host-*"))
    if len(hosts) < nodes and not stopped:
        yield bad(
            _("this machine sees the files of only {value} nodes", value=len(hosts)),
            CURES["folder"],
        )
    elif not run.ok:
        yield bad(
            _("the test job: {reason}\n{value}", reason=run.reason, value=run.tail(5)),
            _("read the log lines above"),
        )
    elif not stopped:
        what = _("shared folder and torch") if told else _("host names, shared folder and torch")
        yield good(_("a job ran on {hosts}, and {what} work", hosts=", ".join(hosts), what=what))


def _fault(line: str, box: bool) -> Finding:
    _unused, kind, *rest = line.split()
    text = _("in a job: {kind} {rest}", kind=kind, rest=" ".join(rest))
    if box and kind == "name":
        return fair(text, CURE_OF_THE_BOX)
    return bad(text, CURES.get(kind, ""))
