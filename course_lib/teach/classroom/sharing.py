"""What a learner agreed to, and the one file that is written for instructors because of it.

The agreement is to one folder and to those who read there. Where the setting names another, or the
readers have changed, it holds no longer, and nothing is shared until the learner agrees anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.plain_files import plain
from course_lib.lab.workspace import Workspace, find, write_json, writing
from course_lib.mistakes.arguments import explained
from course_lib.teach.classroom import folder, snapshot
from course_lib.teach.classroom.folder import SETTING
from course_lib.teach.classroom.snapshot import Snapshot
from course_lib.words import told

ENDING = ".json"
WITHOUT_LISTING = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
"""Opens a folder that one may write to and not list."""


@explained("share_progress")
def share_progress(agree: bool | None = None) -> None:
    """`True` shares with the instructors of the class: the lesson where you are, exercises solved,
    how often tried, with which hint most, and when you were last at work. `False` takes it back.
    Without either it says how it stands."""
    place, workspace = folder.place(), find()
    if agree is False:
        withdraw(workspace)
    elif agree and place is not None:
        readers = folder.readers(place)
        write_json(_note(workspace), {"folder": str(place), **asdict(readers)})
        write(place, snapshot.of(workspace.folder, active_unix_s=time.time()))
    print(told(_standing(workspace, place)))
    if place is not None and is_agreed(workspace, place):
        print(f"{told('what they see')}: {snapshot.of(workspace.folder).encoded().decode()}")


def _standing(workspace: Workspace, place: Path | None) -> str:
    if place is None:
        return f"there is no class here ({SETTING} names no folder): nothing is shared"
    who = folder.readers(place).words
    if is_agreed(workspace, place):
        return f"your progress is shared in {place}: {who} can read it"
    return f"your progress is not shared; share_progress(True) would share it with {who}"


def refresh(workspace: Workspace, lesson: str = "", active_unix_s: float = 0.0) -> bool:
    """Writes the file anew where the learner has agreed. Whether it was written."""
    place = folder.place()
    if place is None or not is_agreed(workspace, place):
        return False
    write(place, snapshot.of(workspace.folder, lesson, active_unix_s))
    return True


def is_agreed(workspace: Workspace, place: Path) -> bool:
    try:
        note = json.loads(plain(_note(workspace)).read_text(encoding="utf-8"))
        return bool(note == {"folder": str(place), **asdict(folder.readers(place))})
    except (OSError, ValueError, RecursionError):
        return False


def withdraw(workspace: Workspace) -> None:
    """Takes back the agreement and the file, also where another folder is named by now."""
    try:
        named = json.loads(plain(_note(workspace)).read_text(encoding="utf-8"))["folder"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        named = ""
    with writing(_note(workspace)):
        _note(workspace).unlink(missing_ok=True)
    for place in {Path(str(named)), folder.place() or Path()} - {Path()}:
        _remove(place)


def write(place: Path, content: Snapshot) -> None:
    """Lays it there whole, for instructors alone."""
    readers, encoded = folder.readers(place), content.encoded()
    with writing(place), _opened(place) as inside:
        there = os.fstat(inside)
        if (there.st_uid, there.st_gid) != (readers.owner, readers.group):
            raise LabError(f"the class folder {place} was exchanged in this moment; try again")
        name = f".{os.getuid()}.{secrets.token_hex(8)}"
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(name, how, 0o600, dir_fd=inside)
        try:
            with os.fdopen(file, "wb") as out:
                if os.fstat(file).st_gid != readers.group:
                    raise LabError(f"files in {place} do not get its group; nothing is shared")
                out.write(encoded)
                os.fchmod(file, folder.READ_BY_INSTRUCTORS)
            _put_in_place(inside, name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=inside)
            raise


def _put_in_place(inside: int, name: str) -> None:
    """Under the account's number. Where somebody else has laid a file of this name, which the
    sticky bit keeps there, under another that begins with it."""
    for target in _names():
        try:
            os.replace(name, target, src_dir_fd=inside, dst_dir_fd=inside)
            return
        except (PermissionError, IsADirectoryError) as error:
            refused = error
    raise refused


def _names() -> Iterator[str]:
    """The second cannot be guessed from outside, and is the same each time."""
    yield f"{os.getuid()}{ENDING}"
    mark = find().state / "class-mark"
    with writing(mark):
        mark.parent.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            mark.write_text(secrets.token_hex(8), encoding="utf-8")
    yield f"{os.getuid()}.{plain(mark).read_text(encoding='utf-8')[:16]}{ENDING}"


@contextlib.contextmanager
def _opened(place: Path) -> Iterator[int]:
    inside = os.open(place, WITHOUT_LISTING)
    try:
        yield inside
    finally:
        os.close(inside)


def _remove(place: Path) -> None:
    for name in _names():
        with contextlib.suppress(OSError):  # none there, or another's
            (place / name).unlink()


def _note(workspace: Workspace) -> Path:
    return workspace.state / "share_progress.json"
