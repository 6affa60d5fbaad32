"""Files that a job or a hand may have replaced by something else, and accounts without a name."""

from __future__ import annotations

import errno
import getpass
import os
import stat
from pathlib import Path


def plain(path: Path) -> Path:
    """The same path, where it can be read to its end: not a pipe, which may never begin, nor a
    device, which may never end. Those are as if there were none."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise FileNotFoundError(errno.ENOENT, "it is no plain file", str(path))
    return path


def without_waiting(path: str, how: int) -> int:
    """An opener: what waits for somebody at the other end of a pipe is refused."""
    return os.open(path, how | os.O_NONBLOCK, 0o666)


def account() -> str:
    """Its number where it has no name, as in containers that choose one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())


def home() -> str:
    """`~` itself where no home is known."""
    try:
        return str(Path.home())
    except RuntimeError:
        return "~"
