"""Kernels that speak over Unix sockets in a private folder.

Jupyter's default is TCP on loopback, where every account of the machine can subscribe to what a
kernel prints: messages are signed, not encrypted.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import socket
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager, KernelManager
from jupyter_server.services.kernels.kernelmanager import ServerKernelManager

from course_lib.lab.errors import LabError

PREFIX = "course-kernels-"
KERNEL = "course_lib.lab.jupyter.kernel"
LONGEST_NAME = "99999-5f"
"""Number of the kernel in this process, and of its socket."""
LONGEST_SOCKET_PATH_BYTES = 103
"""On macOS; on Linux 107."""
_numbers = count(1)


class Private:
    """The part of a kernel manager that chooses where its kernel listens."""

    def __init__(self, *arguments: Any, **values: Any) -> None:
        super().__init__(*arguments, **{"transport": "ipc", **values})

    def _ip_default(self) -> str:
        return str(sockets_folder() / str(next(_numbers)))

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        command: list[str] = super().format_kernel_cmd(extra_arguments)  # type: ignore[misc]
        if command[0] != sys.executable:  # of another environment, where there is no course
            return command
        return [KERNEL if word == "ipykernel_launcher" else word for word in command]


class ServerKernels(Private, ServerKernelManager):  # type: ignore[misc]
    """Of a Jupyter server."""


class NotebookKernels(Private, AsyncKernelManager):
    """Of nbclient, which runs a whole notebook."""


class BlockingKernels(Private, KernelManager):
    """Of nbval."""


@cache
def sockets_folder() -> Path:
    """Of this process; goes when it ends.

    Not Jupyter's runtime folder: below a long home its sockets' names would be too long, and home
    may lie on a file system that has no sockets.
    """
    candidates = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp"))
    for base in map(Path, candidates):
        with contextlib.suppress(OSError):
            return _made_in(base)
    raise LabError(
        f"no private folder for the sockets of kernels could be made in {', '.join(candidates)}. "
        "It needs a short path on a local disk where you may write; TMPDIR names another one"
    )


def _made_in(base: Path) -> Path:
    """Raises OSError where a folder is not private, its path too long, or sockets impossible."""
    _remove_left_behind(base)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # mode 0700, a name nobody guesses
    try:
        # Held as long as this process lives: tells the next one, and what tidies /tmp.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
        facts = folder.stat()
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise PermissionError(f"{folder} is not private on its file system")
        _try_socket(folder / LONGEST_NAME)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _try_socket(path: Path) -> None:
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH_BYTES:
        raise OSError(f"{path} is too long for a socket")
    with socket.socket(socket.AF_UNIX) as trial:
        trial.bind(str(path))
    path.unlink()


def _remove_left_behind(base: Path) -> None:
    """Folders of processes that were killed: nobody holds them any more."""
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            held = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)
