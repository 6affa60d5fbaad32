"""Tests from another account whether it can use what the hub starts for a learner.

    python3 deploy/jupyterhub/access.py [--class FOLDER] [ACCOUNT …]

It becomes the account, then runs, reads and writes like a learner's server, with the same Python:
file modes alone do not show this (links, access lists, mounts). Without accounts it is `nobody`,
which belongs to no group."""

from __future__ import annotations

import argparse
import grp
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
# As far as they exist. Solutions and lessons may be closed to learners.
READ = (".venv", "code", "course_lib", "data", "deploy", "images", "locale", "notebooks",
        "recordings", "site.toml")  # fmt: skip
ANOTHER_PYTHON = "rm -rf .venv, then PYTHON=/usr/bin/python3 bash deploy/jupyterhub/setup.sh"


def problems(class_folder: str) -> list[tuple[str, str]]:
    """Return what this process cannot do, with the remedy."""
    if closed := closed_on_the_way(COURSE / "deploy"):
        return [(f"{closed}, on the way to the course, is closed", _chmod("o+x", closed))]
    found = []
    python = Path(sys.executable)
    closed = closed_on_the_way(python)
    if is_elsewhere := bool(closed) and not Path(closed).is_relative_to(COURSE):
        found += [(f"{closed}, on the way to Python ({python}), is closed", ANOTHER_PYTHON)]
    for name in READ[is_elsewhere:]:
        if refused := next(_unreadable(COURSE / name), None):
            closed = closed_on_the_way(Path(refused))
            cure = _chmod("o+x", closed) if closed else _chmod("-R o+rX", COURSE / name)
            found += [(f"{refused} cannot be read", cure)]
    start = COURSE / "deploy/jupyterhub/start_user.sh"
    if not os.access(start, os.X_OK):
        is_noexec = os.statvfs(start).f_flag & os.ST_NOEXEC
        cure = "mount its file system without noexec" if is_noexec else _chmod("o+rx", start)
        found += [(f"{start} cannot be run", cure)]
    if not found and (said := _failure(python)):
        found += [(said, f"if Python itself is the reason, take another: {ANOTHER_PYTHON}")]
    if class_folder and (refused := _unwritable(Path(class_folder))):
        closed = closed_on_the_way(Path(class_folder) / "file")
        cure = f"move it, or {_chmod('o+x', closed)}" if closed else "course class make"
        found += [(refused, cure)]
    return found


def _chmod(mode: str, path: str | Path) -> str:
    return f"chmod {mode} {shlex.quote(str(path))}"


def closed_on_the_way(path: Path) -> str:
    """Return the first folder that may not be entered, also behind links; "" if there is none."""
    for step in [*reversed(path.parents), path]:
        try:
            target = step.readlink()
        except PermissionError:
            return str(step.parent)
        except OSError:  # no link
            continue
        if closed := closed_on_the_way(step.parent / target):
            return closed
    return ""


def _unreadable(top: Path) -> Iterator[str]:
    inside = (
        f"{folder}/{name}"
        for folder, folders, files in os.walk(top)
        for name in [*folders, *files]
        if "__pycache__" not in folder  # Python compiles anew if it cannot read them
    )
    for path in (str(top), *inside):
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except PermissionError:
            yield path
        except OSError:  # it does not exist, for any account
            continue


def _failure(python: Path) -> str:
    """Return the command of a learner's server that fails, with its last line of output."""
    server = python.with_name("jupyterhub-singleuser")
    commands = [[str(python), "-c", "pass"]]
    if server.exists():
        commands += [[str(python), "-c", "import course_lib.cli"], [str(server), "--version"]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            said = done.stderr.strip().splitlines()[-1:] if done.returncode else None
        except OSError as error:
            said = [str(error)]
        if said is not None:
            return f"{shlex.join(command)} fails: {''.join(said)}"
    return ""


def _unwritable(folder: Path) -> str:
    trial = folder / f".tried-{os.getuid()}-{os.getpid()}"
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        return f"nothing can be shared in the class folder {folder}: {error.strerror}"
    return ""


def tried_as(account: str, class_folder: str) -> bool:
    """Return whether all is well, from a child process that has become the account."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        known = pwd.getpwnam(account)
        os.initgroups(account, known.pw_gid)
        os.setgid(known.pw_gid)
        os.setuid(known.pw_uid)
        os.chdir("/")
        os.environ.clear()
        os.environ |= {"PATH": os.defpath, "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
        found = problems(class_folder)
        for what, cure in found:
            print(f"hub: {account} cannot start a server: {what}\n     → {cure}", file=sys.stderr)
    except BaseException as error:
        found = [error]
        print(f"hub: it could not be tried as {account}: {error}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(bool(found))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("accounts", nargs="*", default=["nobody"])
    options.add_argument("--class", dest="class_folder", default="")
    given = options.parse_args()
    if os.getuid() != 0:
        print("hub: only root can try whether other accounts can use the course", file=sys.stderr)
        return 0
    of_one_kind: dict[frozenset[int], str] = {}
    for account in given.accounts:
        try:
            own = pwd.getpwnam(account)
        except KeyError:
            continue  # nobody can log in by that name
        groups = {g for g in os.getgrouplist(account, own.pw_gid) if _name(g) != account}
        of_one_kind.setdefault(frozenset(groups), account)
    return int(not all([tried_as(one, given.class_folder) for one in of_one_kind.values()]))


def _name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
