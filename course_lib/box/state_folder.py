"""The state folder of the box. It is private to its user, and may lie on a full disk.

An account that can write there can run code in the user's jobs. The same is true of an account that
prepares a job's temporary files. In `/tmp`, another account can take a name first
(`torchinductor_<user>`). Therefore each job has its own temporary folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from errno import EDQUOT, EIO, ENOSPC

from course_lib.box import settings

FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(OSError):
    """Error: the folder, or something in it, belongs to another account."""


def make_private(folder: str) -> None:
    """Create the folder or make it private. Refuse it if others may have changed it."""
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):  # as root, chmod would make a device private for all users
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    if found.st_uid != os.getuid():
        raise _wrong_owner(folder, found.st_uid)
    if not found.st_mode & FOR_OTHERS:
        return
    os.chmod(folder, 0o700)
    if found.st_mode & WRITABLE_BY_OTHERS:
        with os.scandir(folder) as entries:
            for entry in entries:
                owner = entry.stat(follow_symlinks=False).st_uid
                if owner != os.getuid():
                    os.chmod(folder, stat.S_IMODE(found.st_mode))  # the next call refuses it too
                    raise _wrong_owner(entry.path, owner)


def _wrong_owner(path: str, owner: int) -> NotPrivate:
    return NotPrivate(
        f"{path} belongs to another account ({_account(owner)}), which could run code in your jobs."
        f" Name a folder of your own with COURSE_BOX_HOME, or remove {path}"
    )


def _account(owner: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"number {owner}"


def keep(path: str, text: str) -> None:
    """Write a text to a file of a state folder, completely or not at all. If there is no space, the
    caller computes the text again the next time."""
    unfinished = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        make_private(os.path.dirname(path))
        try:
            with open(unfinished, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(unfinished, path)
        except OSError:  # such as a full disk, which still accepts an empty file
            os.unlink(unfinished)


# Temporary errors, after which a caller may try again.
FAILURES = (ENOSPC, EDQUOT, EIO)


def is_failing(error: OSError) -> bool:
    return error.errno in FAILURES


def log_file(path: str, flags: int) -> str:
    """Return `path`, or /dev/null. A missing log must not prevent the start of a process."""
    try:
        os.close(os.open(path, flags | os.O_CREAT, 0o600))
    except OSError:
        return os.devnull
    return path


def note(text: str) -> None:
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n"
    with contextlib.suppress(OSError):  # the disk may be full
        os.write(2, line.encode(errors="replace"))


# In the job's folder; a link if the path would be too long.
TEMPORARY = "tmp"
# A socket's path may have 107 bytes; Python's multiprocessing adds 32 to the folder.
LONGEST_PATH_BYTES = 70


def make_temporary(job_folder: str) -> None:
    """Create an empty temporary folder, without files of an earlier start of the job."""
    remove_temporary(job_folder)
    path = os.path.join(job_folder, TEMPORARY)
    if len(os.fsencode(path)) <= LONGEST_PATH_BYTES:
        os.mkdir(path, 0o700)
    else:
        import tempfile

        os.symlink(tempfile.mkdtemp(prefix="course-"), path)
    os.makedirs(settings.compiled_code(), mode=0o700, exist_ok=True)


def temporary_folder(job_id: int) -> str:
    return os.path.realpath(os.path.join(settings.job_folder(job_id), TEMPORARY))


def remove_temporary(job_folder: str) -> None:
    path = os.path.join(job_folder, TEMPORARY)
    if os.path.lexists(path):
        import shutil

        shutil.rmtree(os.path.realpath(path), ignore_errors=True)
        if os.path.islink(path):
            os.unlink(path)
