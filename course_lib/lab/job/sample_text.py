"""The text that training programs read: made once, where every run of the workspace finds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import DATA_FOLDER, Recipe
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import Workspace

NAME = "sample_text_document"
WANTED = f"{DATA_FOLDER}/{NAME}"
"""How a recipe names it, wherever it lies."""
PATIENCE_S = 600
SIGN_OF_LIFE_S = 5


def folder(workspace: Workspace, programs: Path) -> Path:
    """Of the workspace if it is there, else of the checkout, else where it will be made."""
    candidates = (workspace.folder / "data", programs.parent / "data")
    return next((path for path in candidates if _is_ready(path)), candidates[0])


def prepare(recipe: Recipe, site: Site, say: Callable[[str], None]) -> None:
    """Makes the text if the recipe reads it and it is not there; compute nodes could not fetch
    one, and a job that waited for it would hold its devices meanwhile."""
    data = Path(site.data)
    if WANTED not in recipe.arguments or _is_ready(data):
        return
    say(f"{recipe.name}: preparing the sample text in {data} (once, some seconds)")
    command = [sys.executable, str(Path(site.programs, "sample_text.py")), "--out", str(data)]
    if problem := _run(command, lambda waited_s: say(f"  still preparing, {waited_s} s so far")):
        raise LabError(
            f"the sample text could not be made: {problem}\n  asked: {' '.join(command)}"
        )


def _run(command: list[str], say_so_far: Callable[[int], None]) -> str:
    """The end of its complaint; nothing if all went well. A busy machine takes a minute."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for waited_s in range(SIGN_OF_LIFE_S, PATIENCE_S, SIGN_OF_LIFE_S):
            try:
                said, _ = process.communicate(timeout=SIGN_OF_LIFE_S)
                break
            except subprocess.TimeoutExpired:
                say_so_far(waited_s)
        else:
            process.kill()
            return f"it was not done after {PATIENCE_S} s"
    return said.decode(errors="replace").strip()[-500:] if process.returncode else ""


def _is_ready(path: Path) -> bool:
    return (path / f"{NAME}.idx").is_file()
