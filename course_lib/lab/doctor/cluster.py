"""Checks of the cluster with its own commands. If a command gives no answer, the check says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.script import render
from course_lib.lab.job.site import Site
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.queue.slurm import TIMEOUT_S, Slurm, job_environment, pace_line
from course_lib.lab.workspace import Workspace
from course_lib.words import N_, _

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
    done = subprocess.run(
        ["sinfo", "--noheader"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if told := FLAT.search(done.stderr):
        yield fair(told["why"], f"{told['cure']}; {FLAT_MEANS}")
    elif done.returncode == 0:
        yield good(_("each node of the box has its own network and host name"))


FLAT = re.compile(r"(?P<why>flat mode: .*)\. Cure: (?P<cure>.*)\.")
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
    """Ask Slurm whether it would accept a typical job of the lessons."""
    devices = 1 if site.ask != "none" else 0
    recipe = shell.recipe("doctor", "true", nodes=NODES_ASKED, gpus_per_node=devices)
    assert not isinstance(recipe, Unfinished)
    try:
        text = render(recipe, site).text
        Slurm().test(text, job_environment(os.environ))
    except LabError as error:
        yield bad(_("the cluster would refuse a job: {error}", error=error), "")
    else:
        yield good(_("the cluster would accept a job on {wanted} nodes", wanted=NODES_ASKED))
