"""A learner's agreement to share progress, and the file that instructors read.

The agreement covers one folder and its readers. If the setting names a different folder, or the
readers change, nothing is shared until the learner agrees again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.classroom import folder, snapshot
from course_lib.classroom.folder import SETTING
from course_lib.classroom.snapshot import Snapshot
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import (
    Workspace,
    find,
    plain,
    write_bytes_atomically,
    write_json,
    writing,
)
from course_lib.mistakes.arguments import explained
from course_lib.publish.building.source import number_of
from course_lib.shipped import SHIPPED
from course_lib.words import _

NOTE = Path(".course") / "share_progress.json"


@explained("share_progress")
def share_progress(agree: bool | None = None) -> None:
    """Share your progress with the instructors of the class, or stop sharing it.

    `True` shares your lesson, the exercises you solved, your number of tries, your most frequent
    hint, and the time you last worked. `False` withdraws the agreement. Without an argument, print
    the current state.
    """
    place, workspace = folder.place(), find()
    if agree is False:
        withdraw(workspace)
    elif agree and place is not None:
        readers = folder.readers(place)
        write_json(_note(workspace), {"folder": str(place), **asdict(readers)})
        write(place, snapshot.of(workspace.folder, active_unix_s=time.time()))
    print(_standing(workspace, place))
    if place is not None and is_agreed(workspace, place):
        print(f"{_('what they see')}: {snapshot.of(workspace.folder).encoded().decode()}")


def _standing(workspace: Workspace, place: Path | None) -> str:
    if place is None:
        return _(
            "there is no class here ({setting} names no folder): nothing is shared", setting=SETTING
        )
    who = folder.readers(place).words
    if is_agreed(workspace, place):
        return _("your progress is shared in {place}: {who} can read it", place=place, who=who)
    return _("your progress is not shared; share_progress(True) would share it with {who}", who=who)


def after_cell(*_event: object) -> None:
    """Share progress after a cell. An error here must not look like an error of that cell."""
    try:
        place, workspace = folder.place(), find()
        if place is not None and is_agreed(workspace, place):
            write(place, snapshot.of(workspace.folder, lesson_here(), time.time()))
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


def is_agreed(workspace: Workspace, place: Path) -> bool:
    try:
        note = json.loads(plain(_note(workspace)).read_text(encoding="utf-8"))
        return bool(note == {"folder": str(place), **asdict(folder.readers(place))})
    except (OSError, ValueError, RecursionError):
        return False


def withdraw(workspace: Workspace) -> None:
    """Withdraw the agreement and delete the file, even if the class folder has changed since."""
    try:
        named = json.loads(plain(_note(workspace)).read_text(encoding="utf-8"))["folder"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        named = ""
    with writing(_note(workspace)):
        _note(workspace).unlink(missing_ok=True)
    for place in {Path(str(named)), folder.place() or Path()} - {Path()}:
        with contextlib.suppress(OSError):  # no such file, or it belongs to another account
            _file(place).unlink()


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
