"""Class folder: every learner may put a file in it, and only instructors may read it.

Its mode is 3773. Other accounts may create files but not list them (`-wx`). The setgid bit gives
each file the folder's group, the instructors. The sticky bit keeps accounts from removing or
replacing each other's files.
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
from course_lib.words import N_, _

SETTING = "COURSE_CLASS"
MODE = 0o3773
# Files get the folder's group, and learners cannot remove each other's files.
SAFE_BITS = stat.S_ISGID | stat.S_ISVTX
READ_BY_INSTRUCTORS = 0o640
MAKE = N_("`course class make FOLDER --group GROUP` makes a folder with the right permissions")


def place() -> Path | None:
    """Return the class folder that the setting names, if any."""
    chosen = os.environ.get(SETTING, "")
    if not chosen:
        return None
    path = Path(chosen)
    if not path.is_absolute():
        raise LabError(_(
            "{setting}={chosen!r} is not an absolute path; it must begin with /",
            setting=SETTING, chosen=chosen,
        ))  # fmt: skip
    return path


@dataclass(frozen=True)
class Readers:
    """Accounts that can read shared progress: the folder's owner and the members of its group."""

    owner: int
    group: int

    @property
    def words(self) -> str:
        members = sorted({name_of(self.owner), *members_of(self.group)})
        return _(
            "{members} (group {group})", members=", ".join(members), group=group_name(self.group)
        )


def readers(folder: Path) -> Readers:
    """Return the readers of the folder; raise LabError if further accounts could read its files."""
    try:
        there = folder.stat()
    except OSError as error:
        raise LabError(_(
            "the class folder {folder} cannot be used: {strerror}",
            folder=folder, strerror=error.strerror,
        )) from error  # fmt: skip
    mode = stat.S_IMODE(there.st_mode)
    if not stat.S_ISDIR(there.st_mode) or mode & SAFE_BITS != SAFE_BITS or mode & stat.S_IROTH:
        raise LabError(_(
            "the class folder {folder} would let learners read or remove each other's files: "
            "it has mode {mode:o} and needs {needed:o}; {make}",
            folder=folder, mode=mode, needed=MODE, make=MAKE,
        ))  # fmt: skip
    if there.st_uid != os.getuid() and there.st_gid in {os.getgid(), *os.getgroups()}:
        raise LabError(
            _(
                "you belong to the group {st_gid}, which can read {folder}, so your progress is "
                "not shared. If all learners belong to this group, it is the wrong group: {make}",
                st_gid=group_name(there.st_gid),
                folder=folder,
                make=MAKE,
            )
        )
    return Readers(there.st_uid, there.st_gid)


def make(folder: Path, group: str, members: list[str] | None = None) -> Readers:
    """Create the folder, or repair it. Only root may set `members`, the instructors."""
    if members is not None:
        _set_members(group, members)
    with writing(folder):
        folder.mkdir(exist_ok=True)
        try:
            os.chown(folder, -1, _group_number(group) if group else folder.stat().st_gid)
        except PermissionError as error:
            raise LabError(_(
                "{folder} cannot be given to the group {group}: its owner must be a "
                "member of it (ask the administrators for a group of the instructors)",
                folder=folder, group=group,
            )) from error  # fmt: skip
        folder.chmod(MODE)  # after chown, which clears the setgid bit
    return readers(folder)  # the kernel drops the bit for a group that is not the caller's


def _group_number(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise LabError(
            _("no group {group!r} here; `groups` lists your groups", group=group)
        ) from error


def _set_members(group: str, members: list[str]) -> None:
    """Set exactly these members, so that former instructors lose access."""
    for command in (["groupadd", "-f", group], ["gpasswd", "-M", ",".join(members), group]):
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            why = str(getattr(error, "stderr", "") or error).strip()
            said = _("{command} failed: {why}", command=" ".join(command), why=why)
            raise LabError(said) from error


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"


def members_of(gid: int) -> list[str]:
    """Return the names of a group's members that this machine knows."""
    try:
        named = list(grp.getgrgid(gid).gr_mem)
    except KeyError:
        named = []
    return named + [one.pw_name for one in pwd.getpwall() if one.pw_gid == gid]
