"""The folder of the box is its user's alone: who may write there runs code in the user's jobs."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(OSError):
    """The folder, or something in it, is somebody else's."""


def make(folder: str) -> None:
    """Makes it, or makes it private if it is ours; refuses what others may have prepared."""
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):  # root could make a device private, for everybody
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    if found.st_uid != os.getuid():
        raise _of_another(folder, found.st_uid)
    if not found.st_mode & FOR_OTHERS:
        return
    os.chmod(folder, 0o700)
    if found.st_mode & WRITABLE_BY_OTHERS:
        with os.scandir(folder) as entries:
            for entry in entries:
                owner = entry.stat(follow_symlinks=False).st_uid
                if owner != os.getuid():
                    os.chmod(folder, stat.S_IMODE(found.st_mode))  # to be refused the next time too
                    raise _of_another(entry.path, owner)


def _of_another(path: str, owner: int) -> NotPrivate:
    return NotPrivate(
        f"belongs to another account ({_name(owner)}), which could run code in your jobs: {path}."
        " Name a folder of your own with COURSE_BOX_HOME, or remove this one"
    )


def _name(owner: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"number {owner}"


def keep(path: str, text: str) -> None:
    """What was found out once, in a file of such a folder: whole, or not at all. Who cannot write
    it down finds it out again."""
    unfinished = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        make(os.path.dirname(path))
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, path)
