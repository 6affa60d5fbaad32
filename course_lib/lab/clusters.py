"""The choice of a cluster: from the site file, a cluster that answers here, or the box."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.job import site as sites
from course_lib.lab.job.program_files import data_folder
from course_lib.lab.job.site import Site
from course_lib.lab.queue.records import RECORDED
from course_lib.lab.queue.slurm import TIMEOUT_S
from course_lib.lab.recorded import printed
from course_lib.lab.workspace import Workspace, programs_folder
from course_lib.words import _

BOX_PYTHON = "COURSE_BOX_PYTHON"
FLAT = re.compile(r"(?P<why>flat mode: .*)\. Cure: (?P<cure>.*)\.")

# Names a preset, or `recorded`, for labs that are created without a site.
NAMED_BY = "COURSE_SITE"


@dataclass(frozen=True)
class Choice:
    """A site, and why it was chosen."""

    site: Site
    why: str


def choose(workspace: Workspace, site: Site | str | None = None) -> Choice:
    """Choose a site and add the paths of the course on this machine."""
    site = site or _named()
    if site == RECORDED:
        chosen = recorded(workspace)
        why = _("recorded runs replace jobs, as asked; nothing runs here")
    elif site:
        chosen = site if isinstance(site, Site) else sites.preset(site)
        why = _("{title}, as asked", title=chosen.title or chosen.name)
    elif workspace.site_file.exists():
        chosen = sites.load(workspace.site_file)
        why = _("{title}, as site.toml says", title=chosen.title or chosen.name)
    elif slurm_answers():
        chosen, why = sites.preset("slurm"), _("a Slurm cluster answers here")
    else:
        chosen = sites.preset("box")
        why = _("{title}, because no Slurm cluster answers here", title=chosen.title)
    return Choice(placed(chosen, workspace), why)


def is_recorded(site: str | None) -> bool:
    """Return True if a lab with this site (or the default site) would return recorded runs."""
    return (site or _named()) == RECORDED


def _named() -> str | None:
    return os.environ.get(NAMED_BY) or None


def recorded(workspace: Workspace) -> Site:
    from course_lib.lab.recorded.recording_index import RecordingIndex

    return RecordingIndex.of(workspace).site().but(recorded=True)


def placed(site: Site, workspace: Workspace) -> Site:
    path = f"{site.venv}/bin" if site.venv else ""
    if not path and not site.commands and not site.container:
        path = str(Path(sys.executable).parent)
    programs = programs_folder()
    return site.but(
        workspace=str(workspace.folder),
        programs=str(programs),
        data=str(data_folder(workspace, programs)),
        path=site.path or path,
    )


def slurm_answers() -> bool:
    """Return True if a Slurm cluster answers here. Slurm's commands may be installed without one.
    Commands of any box do not count; they are scripts that contain this variable's name."""
    found = shutil.which("sinfo")
    try:
        if found is None or BOX_PYTHON.encode() in Path(found).read_bytes()[:4096]:
            return False
        done = subprocess.run([found, "--noheader"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def sinfo() -> subprocess.CompletedProcess[str]:
    """Call sinfo. Its errors contain FLAT if the nodes of the box share one network."""
    return subprocess.run(
        ["sinfo", "--noheader"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def box_bin() -> Path:
    from course_lib.box import bin_dir

    return Path(bin_dir())


def put_commands_on_path(site: Site) -> None:
    """Put the box's commands, or commands that refuse for recorded runs, first on the PATH of this
    process and its children. A Slurm cluster has its own commands."""
    if not site.box and not site.recorded:
        return
    folder = str(printed.BIN if site.recorded else box_bin())
    if not site.recorded and not os.environ.get(BOX_PYTHON):
        # For warm starts. The first Python on the PATH may have no torch.
        os.environ[BOX_PYTHON] = shutil.which("python3", path=site.path) or sys.executable
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([folder, *(part for part in parts if part != folder)])
