"""The learner's copies of the notebooks, and their updates.

Git tracks the clone's `notebooks/`. If learners edited them, the next `git pull` would stop.
Learners therefore work on copies: `my_notebooks/` in a clone, or `notebooks/` in a workspace
elsewhere, for example on a hub. A new version replaces an unchanged copy. Beside a changed copy,
the new version becomes a separate file. Nothing is deleted, and no learner's work is overwritten.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from course_lib.classroom import opening
from course_lib.classroom.folder import place as class_place
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import find, write_atomically, write_json
from course_lib.publish.building.build import folder_of, outputs
from course_lib.shipped import SHIPPED
from course_lib.words import ENGLISH, LANGUAGES

IN_A_CLONE, ELSEWHERE = "my_notebooks", "notebooks"
# Stored beside the copies: for each file, the digest of the version that the course wrote.
NOTES = ".course-lessons.json"


def update_workspace(
    workspace: Path, language: str = ENGLISH, alone: bool = False
) -> tuple[Path, list[str]]:
    """Copy the lessons, and the solutions that the class has opened. Return folder and news.

    Without a class, a clone has all solutions, and so has a learner who works alone. A different
    workspace, as on a hub, has none. A translation has its own folder: `my_notebooks/ko`.
    """
    is_clone = (workspace / "lessons").is_dir() and (workspace / "course_lib").is_dir()
    clone, folder = (workspace, IN_A_CLONE) if is_clone else (SHIPPED, ELSEWHERE)
    numbers = opening.opened(class_place())
    if numbers is None:
        numbers = {opening.ALL} if is_clone or alone else set()
    opened = {
        name: text
        for name, text in _shipped(clone, "solutions", language).items()
        if numbers & {opening.ALL, name.partition("_")[0]} or (numbers and name.endswith(".svg"))
    }
    lessons = folder_of(workspace, folder, language)
    news = update(lessons, _shipped(clone, "notebooks", language))
    if opened:
        news += update(folder_of(workspace, f"{folder}/solutions", language), opened)
    return lessons, news


def _shipped(clone: Path, kind: str, language: str) -> dict[str, str]:
    """Return names and texts. The repository has English notebooks; translations are built here."""
    folder = folder_of(clone, kind, language)
    if language == ENGLISH:
        return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.ipynb")}
    return {
        path.relative_to(folder).as_posix(): text
        for path, text in outputs(clone, language).items()
        if folder in path.parents
    }


def update(folder: Path, shipped: dict[str, str]) -> list[str]:
    """Bring the copies in `folder` up to the shipped texts. Return sentences about the changes."""
    if not shipped:
        raise LabError("this library came without its lessons; install the course again")
    folder.mkdir(parents=True, exist_ok=True)
    fresh: list[str] = []
    replaced: list[str] = []
    beside: list[str] = []
    notes = _read_notes(folder / NOTES)
    try:
        for name, text in sorted(shipped.items()):
            copy = folder / name
            copy.parent.mkdir(exist_ok=True)  # a translation has its own pictures
            is_fresh, made = not copy.exists(), _update_one(copy, text, notes)
            if made == copy.name:
                (fresh if is_fresh else replaced).append(made)
            elif made:
                beside.append(f"{copy.name} has your changes and stays; the new version is {made}")
    finally:
        write_json(folder / NOTES, notes)
    of_all = folder if folder.name not in LANGUAGES else folder.parent
    copy_pictures(of_all.parent / "images", SHIPPED / "images")
    copied = [f"{_some(fresh)} copied to {folder}"] if fresh else []
    if replaced:
        copied.append(f"{_some(replaced)} replaced by a new version (you had no changes)")
    return copied + beside


def copy_pictures(folder: Path, pictures: Path) -> None:
    """Copy the pictures that notebooks show. A Jupyter server refuses files behind a link that
    leads out of its root folder."""
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(exist_ok=True)
    if folder.samefile(pictures):  # a clone has them in place
        return
    for picture in pictures.iterdir():
        if picture.suffix in (".png", ".svg"):
            shutil.copyfile(picture, folder / picture.name)


def _update_one(copy: Path, text: str, notes: dict[str, str]) -> str:
    """Write one text. Return the name of the file, or "" if nothing was written.

    A new version beside a changed copy counts as a copy, so a learner's changes to it are kept.
    """
    wanted, noted = digest(text.encode()), notes.get(copy.name)
    found = digest(copy.read_bytes()) if copy.exists() else ""
    if found == wanted:
        notes[copy.name] = wanted
        return ""
    if found and found != noted:
        beside = copy.with_name(f"{copy.stem}.new{copy.suffix}")
        is_known = wanted in (noted, notes.get(beside.name))
        return "" if is_known else _update_one(beside, text, notes)
    write_atomically(copy, text)
    notes[copy.name] = wanted
    return copy.name


def digest(content: bytes) -> str:
    """Hash the cells of a notebook with their outputs, but not the file's layout and header.

    JupyterLab changes layout and header when it saves a notebook that was only viewed.
    """
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        cells = json.loads(content)["cells"]
        told = [{**cell, "source": "".join(cell["source"])} for cell in cells]
        content = json.dumps(told, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(content).hexdigest()


def _read_notes(file: Path) -> dict[str, str]:
    """Read the digests. If they are lost, every differing copy counts as changed, which is safe."""
    try:
        notes: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        notes = None
    return notes if isinstance(notes, dict) else {}


def _some(names: list[str]) -> str:
    lessons = [name for name in names if not name.endswith(".svg")] or ["pictures"]
    return ", ".join(lessons) if len(lessons) <= 2 else f"{len(lessons)} lessons"


def main(argv: list[str]) -> int:
    from course_lib.lab.commands.common import parser

    options = parser(
        "lessons",
        "Copies the newest lessons into your own folder of notebooks. A lesson that you changed "
        "stays as it is, and its new version is put beside it.",
    )
    options.add_argument("action", choices=["update"])
    options.add_argument(
        "--language",
        choices=[ENGLISH, *LANGUAGES],
        default=ENGLISH,
        help="language of the lessons; each language has its own folder",
    )
    given = options.parse_args(argv)
    try:
        folder, news = update_workspace(find().folder, given.language)
    except OSError as error:
        raise LabError(f"the lessons could not all be copied: {error}; yours are whole") from error
    news += filter(None, [opening.words(class_place())])
    print("\n".join(news) or f"the lessons in {folder} are the newest")
    return 0
