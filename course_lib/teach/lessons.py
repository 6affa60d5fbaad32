"""The learner's own copies of the notebooks, and how new versions come in.

Who works in the clone's `notebooks/` edits files that git tracks, and the next `git pull` stops.
So everybody has copies: `my_notebooks/` of a clone, `notebooks/` of a workspace elsewhere (a hub's
users). A copy that its learner has not changed is replaced by a new version; beside a changed one
the new version is laid. Nothing is deleted, and nothing of the learner's is written over.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE, find, write_atomically, write_json
from course_lib.teach.building.build import folder_of, outputs
from course_lib.teach.building.source import LessonError
from course_lib.teach.classroom import opening
from course_lib.teach.classroom.folder import place as class_place
from course_lib.words import ENGLISH, LANGUAGES

CLONE = PACKAGE.parent
IN_A_CLONE, ELSEWHERE = "my_notebooks", "notebooks"
NOTES = ".course-lessons.json"
"""Beside the copies: of each file, the digest of what the course has put there."""


@dataclass
class Update:
    """What became of the copies, by name."""

    folder: Path
    fresh: list[str] = field(default_factory=list)
    taken_along: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    """Name of a copy with changes -> name of the new version that lies beside it now."""

    def __str__(self) -> str:
        lines = []
        if self.fresh:
            lines.append(f"{_some(self.fresh)} copied to {self.folder}")
        if self.taken_along:
            lines.append(
                f"{_some(self.taken_along)} copied to {self.folder} with your changes; work there. "
                "`git checkout notebooks solutions` then gives git its own back"
            )
        if self.replaced:
            lines.append(f"{_some(self.replaced)} replaced by a new version (you had no changes)")
        for name, new in self.beside.items():
            lines.append(f"{name} has your changes and stays; the new version is {new}")
        return "\n".join(lines)


def update_workspace(workspace: Path, language: str = ENGLISH) -> list[Update]:
    """The lessons; in a clone the solutions too, which a learner runs as well. Those of another
    language are built here, into a folder of its own: `my_notebooks/ko`."""
    if not _is_clone(workspace):
        if language != ENGLISH:
            return [update(workspace / ELSEWHERE / language, _built(CLONE, "notebooks", language))]
        files = sorted((CLONE / "notebooks").glob("*.ipynb"))
        shipped = {file.name: file.read_text(encoding="utf-8") for file in files}
        brought = [update(workspace / ELSEWHERE, shipped)]
        if opened := _opened_by_the_class():
            brought.append(update(workspace / ELSEWHERE / "solutions", opened))
        return brought
    done = []
    for kind, folder in (("notebooks", IN_A_CLONE), ("solutions", f"{IN_A_CLONE}/solutions")):
        copies = folder_of(workspace, folder, language)
        before = workspace / kind if language == ENGLISH else None
        built = _built(workspace, kind, language)
        opened = built if kind == "notebooks" else _opened(built)
        if opened or not built:
            done.append(update(copies, opened, before))
    return done


def _opened_by_the_class() -> dict[str, str]:
    """Solutions for workspaces that have none, where a class says from when on there are some."""
    if not opening.current(class_place()).times:
        return {}
    files = sorted((CLONE / "solutions").glob("*.ipynb"))
    return _opened({file.name: file.read_text(encoding="utf-8") for file in files})


def _opened(solutions: dict[str, str]) -> dict[str, str]:
    times = opening.current(class_place())
    return {
        name: text
        for name, text in solutions.items()
        if name.endswith(".svg") or times.is_open(name.partition("_")[0])
    }


def _built(clone: Path, kind: str, language: str) -> dict[str, str]:
    if not (clone / "lessons").is_dir():
        return {}
    folder = folder_of(clone, kind, language)
    built = outputs(clone, language)
    return {
        path.relative_to(folder).as_posix(): text
        for path, text in built.items()
        if folder in path.parents
    }


def _is_clone(workspace: Path) -> bool:
    return (workspace / "lessons").is_dir() and (workspace / "course_lib").is_dir()


def update(folder: Path, shipped: dict[str, str], before: Path | None = None) -> Update:
    """Brings the copies in `folder` up to the shipped texts. `before`: where the learner worked
    until there were copies; what was changed there becomes the copy."""
    if not shipped:
        raise LabError("no lessons lie beside this library; they come with a clone of the course")
    folder.mkdir(parents=True, exist_ok=True)
    done = Update(folder)
    with _alone_in(folder):
        notes = _read_notes(folder / NOTES)
        try:
            for name, text in shipped.items():
                (folder / name).parent.mkdir(exist_ok=True)  # pictures of a language
                if before is None or not _take_along(before / name, folder, text, notes, done):
                    _update_one(folder / name, text, notes, done)
        finally:
            write_json(folder / NOTES, notes)
    of_all = folder if folder.name not in LANGUAGES else folder.parent
    link_images(of_all.parent, CLONE / "images")
    return done


def _take_along(file: Path, folder: Path, text: str, notes: dict[str, str], done: Update) -> bool:
    copy, wanted = folder / file.name, digest(text.encode())
    if copy.exists() or not file.exists() or digest(file.read_bytes()) == wanted:
        return False
    write_atomically(copy, file.read_text(encoding="utf-8"))
    notes[_seen(copy)] = wanted
    done.taken_along.append(copy.name)
    return True


def _update_one(copy: Path, text: str, notes: dict[str, str], done: Update) -> None:
    wanted = digest(text.encode())
    if not copy.exists():
        done.fresh.append(copy.name)
    elif (found := digest(copy.read_bytes())) == wanted:
        notes[copy.name] = wanted
        return
    elif found == notes.get(copy.name):
        done.replaced.append(copy.name)
    else:
        if wanted not in (notes.get(copy.name), notes.get(_seen(copy))):
            done.beside[copy.name] = _lay_beside(copy, text, notes)
            notes[_seen(copy)] = wanted
        return
    write_atomically(copy, text)
    notes[copy.name] = wanted


def _seen(copy: Path) -> str:
    """The note that tells which version was laid beside a changed copy last: each is, once."""
    return f"{copy.name} seen"


def _lay_beside(copy: Path, text: str, notes: dict[str, str]) -> str:
    """Its name. A former new version that the learner has changed meanwhile is kept as well."""
    number = 1
    while True:
        beside = copy.with_name(f"{copy.stem}.new{number if number > 1 else ''}{copy.suffix}")
        if not beside.exists() or digest(beside.read_bytes()) == notes.get(beside.name):
            write_atomically(beside, text)
            notes[beside.name] = digest(text.encode())
            return beside.name
        number += 1


def digest(content: bytes) -> str:
    """Of what a notebook says and shows. JupyterLab lays a file out anew and fills in its head when
    it saves one that was only looked at; that is no change of the learner's."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        cells = json.loads(content)["cells"]
        told = [{**cell, "source": "".join(cell["source"])} for cell in cells]
        content = json.dumps(told, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.sha256(content).hexdigest()


def _read_notes(file: Path) -> dict[str, str]:
    """Lost or spoilt notes make every copy that differs one with changes, which is safe."""
    try:
        notes: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(notes, dict):
        return {}
    return {name: value for name, value in notes.items() if isinstance(value, str)}


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    held = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # no locks here: two updates at once are rare
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def link_images(beside: Path, images: Path) -> None:
    """The notebooks show `../images/…`, those of a language some of their own too."""
    link = beside / "images"
    with contextlib.suppress(FileExistsError):
        link.symlink_to(images)


def _some(names: list[str]) -> str:
    lessons = [name for name in names if not name.endswith(".svg")] or ["pictures"]
    return ", ".join(lessons) if len(lessons) <= 2 else f"{len(lessons)} lessons"


def main(argv: list[str]) -> int:
    from course_lib.lab.commands.common import parser

    options = parser(
        "lessons",
        "Brings the newest lessons into your own folder of notebooks. Those that you have changed "
        "stay as they are; their new versions are laid beside them.",
    )
    options.add_argument("action", choices=["update"])
    options.add_argument(
        "--language",
        choices=[ENGLISH, *LANGUAGES],
        default=ENGLISH,
        help="another one than English; into a folder of its own",
    )
    given = options.parse_args(argv)
    try:
        every = update_workspace(find().folder, given.language)
    except LessonError as error:
        raise LabError(str(error)) from error
    except OSError as error:
        raise LabError(f"the lessons could not all be copied: {error}; yours are whole") from error
    news = [str(done) for done in every if str(done)]
    news += filter(None, [opening.current(class_place()).words])
    print("\n".join(news) or f"the lessons in {every[0].folder} are the newest")
    return 0
