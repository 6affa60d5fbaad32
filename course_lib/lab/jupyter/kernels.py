"""Kernels that communicate over Unix sockets in a private folder.

Jupyter's default is TCP on loopback. Every account of the machine can then subscribe to a kernel's
output, because messages are signed but not encrypted.
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
from course_lib.words import _

PREFIX = "course-kernels-"
KERNEL = "course_lib.lab.jupyter.kernel"
# The longest name of a socket: the kernel's number in this process, and a suffix.
LONGEST_NAME = "99999-5f"
_numbers = count(1)


class Private:
    """Mixin of a kernel manager that makes its kernel listen in a private folder."""

    def __init__(self, *arguments: Any, **values: Any) -> None:
        super().__init__(*arguments, **{"transport": "ipc", **values})

    def _ip_default(self) -> str:
        return str(sockets_folder() / str(next(_numbers)))

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        command: list[str] = super().format_kernel_cmd(extra_arguments)  # type: ignore[misc]
        if command[0] != sys.executable:  # a different environment without the course
            return command
        return [KERNEL if word == "ipykernel_launcher" else word for word in command]


class ServerKernels(Private, ServerKernelManager):  # type: ignore[misc]
    """Kernels of a Jupyter server."""


class NotebookKernels(Private, AsyncKernelManager):
    """Kernels of nbclient, which runs a whole notebook."""


class BlockingKernels(Private, KernelManager):
    """Kernels of nbval."""


@cache
def sockets_folder() -> Path:
    """Return a folder of this process, which is removed when the process ends.

    Jupyter's runtime folder is not used. Under a long home path, the sockets' names would be too
    long, and home may lie on a file system without sockets.
    """
    candidates = dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp"))
    for base in map(Path, candidates):
        with contextlib.suppress(OSError):
            return _made_in(base)
    raise LabError(
        _(
            "no private folder for the sockets of kernels could be made in "
            "{candidates}. Set TMPDIR to a folder with a short path on a local disk",
            candidates=", ".join(candidates),
        )
    )


def _made_in(base: Path) -> Path:
    """Create a folder. Raise OSError if it is not private, or if sockets in it do not work."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))  # mode 0700, a name nobody guesses
    try:
        # Locked while this process lives, because programs that clean /tmp skip locked folders.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
        facts = folder.stat()
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise PermissionError(_("{folder} is not private on its file system", folder=folder))
        with socket.socket(socket.AF_UNIX) as trial:  # its path may be too long
            trial.bind(str(folder / LONGEST_NAME))
        (folder / LONGEST_NAME).unlink()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
