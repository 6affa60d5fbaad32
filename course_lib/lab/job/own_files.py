"""Programs of the learner's own: files of the workspace that a run takes along.

They are copied into the folder of the run when it is submitted, together with what they import from
beside them. So the run goes on with the text that it was submitted with, whatever is edited
meanwhile, and its folder tells for ever what it ran.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import RUN_FOLDER, Recipe
from course_lib.lab.job.run_paths import PROGRAM
from course_lib.lab.job.site import Site
from course_lib.lab.job.sources import closure
from course_lib.lab.plain_files import plain

LARGEST_BYTES = 1 << 20
"""Of all files of a program together; what is larger is data."""
GAP = re.compile(r"^\s*(\.\.\.\s*#.*|[^#'\"]*(?<![\w.\]])=\s*\.\.\.\s*(#.*)?)$")
"""`...  # what belongs here`, or `name = ...`; a body of three dots alone is Python."""


def in_the_run(file: str) -> str:
    """Where the copy lies, as an argument of a recipe."""
    return f"{RUN_FOLDER}/{PROGRAM}/{PurePosixPath(file).name}"


def found(file: str, site: Site) -> Path:
    """The file as the workspace has it, or else the folder of the notebook."""
    places = [Path(site.workspace) / file, Path.cwd() / file]
    for path in places:
        if path.is_file():
            return path
    raise RecipeError(
        f"there is no file {file} in {site.workspace}: run the cell that writes it (its first line "
        "is %%writefile), or give the path of another file"
    )


def read(recipe: Recipe, site: Site) -> dict[str, bytes]:
    """The files and what they import, by the name that each has in the folder of the run."""
    table: dict[str, bytes] = {}
    for file in recipe.files:
        path = found(file, site)
        for part in sorted(closure(path)):
            table[str(part.relative_to(path.parent))] = plain(part).read_bytes()
    if (size := sum(map(len, table.values()))) > LARGEST_BYTES:
        raise RecipeError(
            f"{', '.join(recipe.files)}: {size / 2**20:.1f} MiB with what is imported from beside; "
            "a program has at most 1 MiB. Let it read its data from a file"
        )
    return table


def gaps(recipe: Recipe, site: Site) -> tuple[str, ...]:
    """Lines of the files that wait for the learner."""
    return tuple(
        f"line {number} of {file}: {line.strip()}"
        for file in recipe.files
        for number, line in enumerate(_text(found(file, site)).splitlines(), 1)
        if GAP.match(line)
    )


def _text(path: Path) -> str:
    return plain(path).read_bytes().decode("utf-8", "replace")
