"""A machine of a hub: accounts, and a course that all accounts may read.

The checkout and its interpreter may lie in a folder that only root may enter. Then the hub runs in
a mount namespace in which the folders on the way are open; nothing of the machine is changed.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

OTHERS_MAY_ENTER = 0o001
USER_IS_BUSY = 8
"""What userdel then ends with."""


def closed_ancestor(path: Path) -> Path | None:
    """Return the topmost folder on the way to `path` that other users may not enter."""
    on_the_way = [folder for folder in reversed(path.parents) if folder != Path("/")]
    return next((one for one in on_the_way if not one.stat().st_mode & OTHERS_MAY_ENTER), None)


def opened(command: list[str], needed: list[Path]) -> list[str]:
    """Return a command that runs this one where all users can reach the needed folders."""
    closed = {folder: closed_ancestor(folder) for folder in needed}
    if not any(closed.values()):
        return command
    lines = ["set -e", "hold=$(mktemp -d)"]
    for number, folder in enumerate(needed):
        lines += [
            f"mkdir $hold/{number}",
            f"mount --bind {shlex.quote(str(folder))} $hold/{number}",
        ]
    for ancestor in sorted({one for one in closed.values() if one}):
        lines += [f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(ancestor))}"]
    for number, folder in enumerate(needed):
        if closed[folder]:
            quoted = shlex.quote(str(folder))
            lines += [f"mkdir -p {quoted}", f"mount --move $hold/{number} {quoted}"]
        else:
            lines += [f"umount $hold/{number}"]
    lines += ["rmdir $hold/* $hold", f"exec {shlex.join(command)}"]
    return ["unshare", "--mount", "--propagation=private", "bash", "-c", "\n".join(lines)]


def needed_folders(repository: Path) -> list[Path]:
    return [repository, Path(sys.base_prefix)]


@contextlib.contextmanager
def accounts(*names: str, password: str) -> Iterator[None]:
    made = []
    try:
        for name in names:
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
            made.append(name)
        lines = "".join(f"{name}:{password}\n" for name in names)
        subprocess.run(["chpasswd"], input=lines, text=True, check=True)
        yield
    finally:
        for name in made:
            _remove(name)


def _remove(name: str) -> None:
    """Remove an account. Try repeatedly, because its processes must have ended."""
    for _ in range(50):
        subprocess.run(["pkill", "-KILL", "-u", name], check=False)
        done = subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)
        if done.returncode != USER_IS_BUSY:
            return
        time.sleep(0.2)
