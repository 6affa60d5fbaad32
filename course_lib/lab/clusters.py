"""Which cluster this is: the site file's, the one that answers here, or the box."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.job import sample_text
from course_lib.lab.job import site as sites
from course_lib.lab.job.site import Site
from course_lib.lab.queue.records import RECORDED
from course_lib.lab.workspace import Workspace, programs_folder

RECORDED_BIN = Path(__file__).resolve().parent / "recorded" / "bin"
BOX = Path(__file__).resolve().parent.parent / "box"
BOX_PYTHON = "COURSE_BOX_PYTHON"

NAMED_BY = "COURSE_SITE"
"""Names a preset, or `recorded`, for labs that are not told a site."""


@dataclass(frozen=True)
class Choice:
    """A site, and why it was chosen."""

    site: Site
    why: str


def choose(workspace: Workspace, site: Site | str | None = None) -> Choice:
    """Fills in where the course lies on this machine, which no site file needs to say."""
    site = site or _named()
    if isinstance(site, Site):
        chosen, why = site, f"{site.title or site.name}, as asked"
    elif site == RECORDED:
        chosen = recorded(workspace)
        why = "recorded runs stand in for jobs, as asked: nothing runs here"
    elif site:
        chosen = sites.preset(site)
        why = f"{chosen.title}, as asked"
    elif workspace.site_file.exists():
        chosen = sites.load(workspace.site_file)
        why = f"{chosen.title or chosen.name}, as {workspace.site_file.name} says"
    elif slurm_answers():
        chosen, why = sites.preset("slurm"), "a Slurm cluster answers here"
    else:
        chosen = sites.preset("box")
        why = f"{chosen.title}, because no Slurm cluster answers here"
    return Choice(placed(chosen, workspace), why)


def is_recorded(site: str | None) -> bool:
    """Whether a lab with this site, if any, would hand out recorded runs."""
    return (site or _named()) == RECORDED


def _named() -> str | None:
    return os.environ.get(NAMED_BY) or None


def recorded(workspace: Workspace) -> Site:
    from course_lib.lab.recorded.shelf import Shelf

    return Shelf.of(workspace).site().but(recorded=True)


def placed(site: Site, workspace: Workspace) -> Site:
    path = f"{site.venv}/bin" if site.venv else ""
    if not path and not site.commands and not site.container:
        path = str(Path(sys.executable).parent)
    programs = programs_folder()
    return site.but(
        workspace=str(workspace.folder),
        programs=str(programs),
        data=str(sample_text.folder(workspace, programs)),
        path=site.path or path,
    )


def slurm_answers() -> bool:
    """Slurm's commands may be installed where there is no cluster; the box's own do not count."""
    found = shutil.which("sinfo")
    if found is None or Path(found).resolve().is_relative_to(BOX):
        return False
    try:
        done = subprocess.run([found, "--noheader"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def box_bin() -> Path:
    from course_lib.box import bin_dir

    return Path(bin_dir())


def commands_of(site: Site) -> Path | None:
    """The box's, or those that say that nothing runs here; a Slurm brings its own."""
    if site.recorded:
        return RECORDED_BIN
    return box_bin() if site.box else None


def python_of_box(site: Site, environment: Mapping[str, str]) -> dict[str, str]:
    """The box starts jobs warm with the Python whose torch they will import, that of the site's
    environment: the first one of the PATH may have none."""
    if not site.box or site.recorded or environment.get(BOX_PYTHON):
        return {}
    python = shutil.which("python3", path=site.path) or sys.executable
    return {BOX_PYTHON: python} if python else {}


def put_commands_on_path(site: Site) -> bool:
    """For this process and all that it starts; False if there is nothing to put there."""
    if (bin_folder := commands_of(site)) is None:
        return False
    os.environ.update(python_of_box(site, os.environ))
    folder = str(bin_folder)
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if parts[0] == folder:
        return False
    os.environ["PATH"] = os.pathsep.join([folder, *(part for part in parts if part != folder)])
    return True
