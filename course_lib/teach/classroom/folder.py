"""The class folder: every learner may lay a file there, and only instructors may look.

Its mode is 3773. Others may create files and not list them (`-wx`); of a file in a folder with
setgid the group is the folder's, the instructors'; and where the sticky bit is set nobody removes
or replaces a file of another.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import writing

SETTING = "COURSE_CLASS"
MODE = 0o3773
READ_BY_INSTRUCTORS = 0o640
MAKE = "`course class make FOLDER --group GROUP` makes one as it has to be"


def place() -> Path | None:
    """The class folder that the setting names, if any."""
    chosen = os.environ.get(SETTING, "")
    if not chosen:
        return None
    try:
        path = Path(chosen).expanduser()
    except RuntimeError as error:
        raise LabError(f"{SETTING}={chosen!r} names no folder: there is no such home") from error
    if not path.is_absolute():
        raise LabError(f"{SETTING}={chosen!r} is no whole path: it begins with no /")
    return path


@dataclass(frozen=True)
class Readers:
    """Who reads what is shared: the owner of the folder and the members of its group."""

    owner: int
    group: int

    @property
    def words(self) -> str:
        members = sorted({name_of(self.owner), *members_of(self.group)})
        return f"{', '.join(members)} (group {group_name(self.group)})"


def readers(folder: Path) -> Readers:
    """LabError where a file laid there could be read by others than instructors."""
    try:
        there = folder.stat()
    except OSError as error:
        raise LabError(f"the class folder {folder} cannot be used: {error.strerror}") from error
    if problem := problem_of(there):
        raise LabError(f"the class folder {folder} {problem}; {MAKE}")
    if there.st_uid != os.getuid() and there.st_gid in {os.getgid(), *os.getgroups()}:
        raise LabError(
            f"you belong to the group {group_name(there.st_gid)}, which reads in {folder}, so "
            "nothing of yours is shared. If all learners belong to it, this is the wrong group: "
            f"{MAKE}"
        )
    return Readers(there.st_uid, there.st_gid)


def problem_of(there: os.stat_result) -> str:
    """What lets the wrong people read or remove files; empty where nothing does."""
    if not stat.S_ISDIR(there.st_mode):
        return "is no folder"
    if not there.st_mode & stat.S_ISGID:
        return "does not hand its group on to files (no setgid bit)"
    if not there.st_mode & stat.S_ISVTX:
        return "lets learners remove each other's files (no sticky bit)"
    if there.st_mode & stat.S_IROTH:
        return "can be listed by everybody"
    return ""


def make(folder: Path, group: str, members: list[str] | None = None) -> Readers:
    """Makes the folder, or mends it. `members` are the instructors, whom root alone may set."""
    if members is not None:
        _set_members(group, members)
    with writing(folder):
        folder.mkdir(exist_ok=True)
        there = folder.stat()
        try:
            os.chown(folder, -1, _group_number(group) if group else there.st_gid)
        except PermissionError as error:
            raise LabError(
                f"{folder} cannot be given to the group {group}: its owner must be a member of it "
                "(ask the administrators for a group of the instructors)"
            ) from error
        folder.chmod(MODE)  # after chown, which takes the setgid bit away
    there = folder.stat()
    if problem := problem_of(there):
        raise LabError(f"{folder} {problem}, and its file system keeps it so; take another one")
    return Readers(there.st_uid, there.st_gid)


def _group_number(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise LabError(f"no group {group!r} here; `groups` prints those that you are in") from error


def _set_members(group: str, members: list[str]) -> None:
    """Exactly these, so that who is no instructor any more reads nothing any more."""
    for command in (["groupadd", "-f", group], ["gpasswd", "-M", ",".join(members), group]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise LabError(f"{command[0]} cannot be started: {error.strerror}") from error
        if done.returncode:
            raise LabError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return without_name(uid)


def without_name(uid: int) -> str:
    return f"uid {uid}"


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"


def members_of(gid: int) -> list[str]:
    """By name, as far as the machine tells."""
    try:
        named = list(grp.getgrgid(gid).gr_mem)
    except KeyError:
        named = []
    return named + [one.pw_name for one in pwd.getpwall() if one.pw_gid == gid]
