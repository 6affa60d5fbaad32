"""Files of programs: version, excerpts, the learner's own files and the sample text."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from textwrap import dedent

from course_lib.lab.errors import LabError, RecipeError, listed
from course_lib.lab.job.recipe import DATA_FOLDER, RUN_FOLDER, Recipe
from course_lib.lab.job.script import Script
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import PROGRAM, Workspace, plain
from course_lib.words import _


def digest(recipe: Recipe, site: Site, own: Mapping[str, bytes]) -> str:
    """Return a checksum of all files of the program, or "" if it is not a file (shell commands).
    `own` are files that the run takes along, by name."""
    path = Path(recipe.program)
    if site.programs and "/" not in recipe.program:
        path = Path(site.programs) / recipe.program
    if not recipe.program or not path.is_file():
        return ""
    total = hashlib.sha256()
    for name, content in sorted(own.items()):
        total.update(name.encode(errors="surrogateescape") + b"\0" + content)
    for file in sorted(closure(path)):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def closure(program: Path) -> set[Path]:
    """Return the program and all files beside it that it imports, directly or indirectly."""
    found: set[Path] = set()
    waiting = [program]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        for name in _imported(file.read_bytes()):
            beside = program.parent.joinpath(*name.split("."))
            candidates = (beside.with_suffix(".py"), beside / "__init__.py")
            waiting += [path for path in candidates if path.is_file()]
    return found


@lru_cache(maxsize=512)  # a lesson submits ten jobs of one program
def _imported(source: bytes) -> frozenset[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


# Matches `... # comment` and `name = ...`. A body of three dots alone is valid Python.
GAP = re.compile(r"^\s*(\.\.\.\s*#.*|[^#'\"]*(?<![\w.\]])=\s*\.\.\.\s*(#.*)?)$")


def path_in_run(file: str) -> str:
    """Return the path of a file's copy in the run, for use as an argument of a recipe."""
    return f"{RUN_FOLDER}/{PROGRAM}/{PurePosixPath(file).name}"


def find_file(file: str, site: Site) -> Path:
    """Return the path of a file in the workspace, or else in the notebook's folder."""
    places = [Path(site.workspace) / file, Path.cwd() / file]
    for path in places:
        if path.is_file():
            return path
    raise RecipeError(
        _(
            "there is no file {file} in {workspace}. Run the cell that begins with "
            "%%writefile, or give the path of a different file",
            file=file,
            workspace=site.workspace,
        )
    )


def read_files(recipe: Recipe, site: Site) -> dict[str, bytes]:
    """Return the recipe's files and their imports, by their names in the run's folder."""
    table: dict[str, bytes] = {}
    for file in recipe.files:
        path = find_file(file, site)
        for part in sorted(closure(path)):
            table[str(part.relative_to(path.parent))] = plain(part).read_bytes()
    return table


def gaps_in_files(recipe: Recipe, site: Site) -> tuple[str, ...]:
    """Return the lines that the learner still has to complete."""
    return tuple(
        _("line {number} of {file}: {strip}", number=number, file=file, strip=line.strip())
        for file in recipe.files
        for number, line in enumerate(_lines(find_file(file, site)), 1)
        if GAP.match(line)
    )


def _lines(path: Path) -> list[str]:
    return plain(path).read_text(encoding="utf-8", errors="replace").splitlines()


Definition = ast.FunctionDef | ast.ClassDef


def excerpt(programs: Path, file: str, names: tuple[str, ...]) -> Script:
    """Return the source of the functions `names`. "Loader.micro_batch" is a method of a class."""
    path = programs / file
    if not path.is_file():
        raise LabError(_("there is no program {file} in {programs}", file=file, programs=programs))
    source = path.read_text(encoding="utf-8")
    known = _definitions(ast.parse(source))
    if strange := [name for name in names if name not in known]:
        raise LabError(
            _(
                "{file} has no {strange}; it has {known}",
                file=file,
                strange=listed(strange),
                known=", ".join(known),
            )
        )
    parts = [ast.get_source_segment(source, known[name], padded=True) or "" for name in names]
    return Script(file, "\n\n".join([f"# code/{file}", *map(dedent, parts)]), "python")


def _definitions(tree: ast.Module | ast.ClassDef, of: str = "") -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[of + node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= _definitions(node, f"{of}{node.name}.")
    return found


DATA_NAME = "sample_text_document"
# Name of the text in a recipe, independent of its location.
SAMPLE_TEXT = f"{DATA_FOLDER}/{DATA_NAME}"


def data_folder(workspace: Workspace, programs: Path) -> Path:
    """Return the workspace's data folder if it has the text, else the checkout's if it has the
    text. Otherwise return the workspace's folder, which is then created."""
    candidates = (workspace.folder / "data", programs.parent / "data")
    return next((path for path in candidates if _is_ready(path)), candidates[0])


def prepare_data(recipe: Recipe, site: Site, say: Callable[[str], None]) -> None:
    """Create the sample text if the recipe reads it and it is missing. Compute nodes could not
    download it, and a job that waited for it would hold its devices."""
    if SAMPLE_TEXT in recipe.arguments:
        make_sample_text(Path(site.data), Path(site.programs), say)


def make_sample_text(data: Path, programs: Path, say: Callable[[str], None]) -> None:
    if _is_ready(data):
        return
    say(_("preparing the sample text in {data} (once, up to a minute)", data=data))
    command = [sys.executable, str(programs / "sample_text.py"), "--out", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(
            _(
                "the sample text could not be made: {problem}\n  command: {command}",
                problem=done.stderr.strip()[-500:],
                command=" ".join(command),
            )
        )


def _is_ready(path: Path) -> bool:
    return (path / f"{DATA_NAME}.idx").is_file()
