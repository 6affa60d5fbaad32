"""Checks of this machine: installed packages, writable folders, fonts and space."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.workspace import Workspace
from course_lib.words import _, language

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
