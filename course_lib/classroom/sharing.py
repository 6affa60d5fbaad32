"""A learner's agreement to share progress, and the file that instructors read.

The agreement covers one folder, its readers and the form of the file. If one of them changes,
nothing is shared until the learner agrees again. If a class has agreed outside the course, its
administrator can set this. A learner's own answer overrides the setting.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.classroom import folder, snapshot, tables
from course_lib.classroom.folder import SETTING
from course_lib.classroom.snapshot import FORMAT, Snapshot
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import (
    Workspace,
    account,
    find,
    plain,
    write_bytes_atomically,
    write_json,
    writing,
)
from course_lib.mistakes.arguments import explained
from course_lib.publish.building.source import number_of
from course_lib.shipped import SHIPPED
from course_lib.teach import jsonl
from course_lib.words import _, label

NOTE = Path(".course") / "share_progress.json"
# The administrator sets it to "yes" for a class that has agreed to share progress.
CLASS_HAS_AGREED = "COURSE_CLASS_AGREED"


@dataclass(frozen=True)
class Agreement:
    """Agreement to share. `details` covers each try, and the name beside the guesses."""

    details: bool = False
    by_class: bool = False


@explained("share_progress")
def share_progress(agree: bool | None = None, details: bool = False) -> None:
    """Share your progress with the instructors of the class, or stop sharing it.

    `True` shares your lesson, the exercises you solved, how often you tried, your last hint, your
    guesses without your name, and the time you last worked. With `details=True`, the instructors
    also see each try, and your name beside your guesses. `False` withdraws the agreement. Without
    an argument, print the current state.
    """
    place, workspace = folder.place(), find()
    if agree is False:
        withdraw(workspace)
    elif agree and place is not None:
        write_json(_note(workspace), {**_terms(place), "details": details})
        _refresh(workspace, place, details)
    print(_standing(workspace, place))
    if place is not None and (agreed := agreement(workspace, place)):
        seen = snapshot.of(workspace.folder, lesson_here(), details=agreed.details)
        print(f"{_('what they see')}:", *_sentences(seen), sep="\n  ")


def _sentences(seen: Snapshot) -> Iterator[str]:
    """Yield what instructors see, with one line for each exercise and each guess."""
    lesson = seen.lesson or "-"
    yield _("lesson {lesson}, when you last worked, and if you ask for help", lesson=lesson)
    for name, one in sorted(seen.exercises.items()):
        is_solved = _("solved") if one.is_solved else _("not solved")
        hint = _("; last hint: {hint}", hint=one.hint) if one.hint else ""
        yield _(
            "exercise {name}: {is_solved}, tries: {tries}{hint}",
            name=name, is_solved=is_solved, tries=one.tries, hint=hint,
        )  # fmt: skip
    named = _("guess, with your name") if seen.details else _("guess, without your name")
    for question, made in seen.guesses.items():
        yield f"{named}: {label(question)}: {tables.said(made.guess, made.unit)}"
    if seen.details:
        yield _("the exercise, the time and the hint of each try")


@explained("help_me")
def help_me(raised: bool = True) -> None:
    """Show the instructors that you need help. `help_me(False)` says that you no longer do.

    They see your lesson, exercise and last hint. Solving an exercise also ends the call.
    """
    place, workspace = folder.place(), find()
    now = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "learner": account(), "raised": raised}
    jsonl.append(workspace.folder / snapshot.HELP, now, _("the call for help"))
    if place is None or not (agreed := agreement(workspace, place)):
        print(_("instructors cannot see it: {why}", why=_standing(workspace, place)))
        return
    _refresh(workspace, place, agreed.details)
    who = folder.readers(place).words
    if raised:
        print(_("{who} can see that you need help; help_me(False) takes it back", who=who))
    else:
        print(_("{who} can see that you need no more help", who=who))


def _standing(workspace: Workspace, place: Path | None) -> str:
    if place is None:
        return _(
            "nothing is shared, because {setting} names no folder of a class",
            setting=SETTING,
        )
    who, agreed = folder.readers(place).words, agreement(workspace, place)
    if agreed is None:
        return _(
            "your progress is not shared; share_progress(True) would share it with {who}", who=who
        )
    if agreed.by_class:
        return _(
            "your class has agreed to share its progress: {who} can read yours. "
            "share_progress(False) stops it",
            who=who,
        )
    return _("your progress is shared in {place}: {who} can read it", place=place, who=who)


def after_cell(*_event: object) -> None:
    """Share progress after a cell. An error here must not look like an error of that cell."""
    try:
        place, workspace = folder.place(), find()
        if place is not None and (agreed := agreement(workspace, place)):
            _refresh(workspace, place, agreed.details)
            if agreed.by_class:
                _say_once(f"({_standing(workspace, place)})")
    except (LabError, OSError) as error:
        _say_once(_("(progress could not be shared: {error})", error=error))


@cache
def _say_once(text: str) -> None:
    print(text)


def lesson_here() -> str:
    """Return the lesson number of this kernel's notebook; empty for other notebooks.

    Copies (`…-Copy1.ipynb`, `….new.ipynb`) count as the lesson.
    """
    name = Path(os.environ.get("JPY_SESSION_NAME", "")).name
    shipped = (SHIPPED / "notebooks").glob("*.ipynb")
    return next((number_of(one) for one in shipped if name.startswith(one.stem)), "")


def install(shell: Any) -> None:
    shell.events.register("post_run_cell", after_cell)


def agreement(workspace: Workspace, place: Path) -> Agreement | None:
    """Return what the learner, or else the class, has agreed to share; None for nothing."""
    note, has_agreed = _noted(workspace), os.environ.get(CLASS_HAS_AGREED) == "yes"
    if note.get("agree") is False or not (note or has_agreed):
        return None
    if _terms(place).items() <= note.items():
        return Agreement(details=note.get("details") is True)
    return Agreement(by_class=True) if has_agreed else None


def _terms(place: Path) -> dict[str, Any]:
    return {"folder": str(place), "format": FORMAT, **asdict(folder.readers(place))}


def _noted(workspace: Workspace) -> dict[str, Any]:
    try:
        note = json.loads(plain(_note(workspace)).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def withdraw(workspace: Workspace) -> None:
    """Delete the file, even if the class folder has changed, and record the refusal."""
    named = _noted(workspace).get("folder", "")
    with writing(_note(workspace)):  # a full disk keeps no refusal, but lets go of the agreement
        _note(workspace).unlink(missing_ok=True)
    for place in {Path(str(named)), folder.place() or Path()} - {Path()}:
        with contextlib.suppress(OSError):  # no such file, or it belongs to another account
            _file(place).unlink()
    write_json(_note(workspace), {"agree": False})


def _refresh(workspace: Workspace, place: Path, details: bool) -> None:
    write(place, snapshot.of(workspace.folder, lesson_here(), time.time(), details=details))


def write(place: Path, content: Snapshot) -> None:
    """Write the whole file at once, named after the account's uid, readable only by instructors."""
    readers, file = folder.readers(place), _file(place)
    if os.path.lexists(file) and file.lstat().st_uid != os.getuid():
        raise LabError(f"{file} is of another account: an instructor can remove it")
    write_bytes_atomically(file, content.encoded())
    if file.stat().st_gid != readers.group:
        file.unlink()
        raise LabError(_("files in {place} do not get its group; nothing is shared", place=place))
    file.chmod(folder.READ_BY_INSTRUCTORS)


def _file(place: Path) -> Path:
    return place / f"{os.getuid()}.json"


def _note(workspace: Workspace) -> Path:
    return workspace.folder / NOTE
