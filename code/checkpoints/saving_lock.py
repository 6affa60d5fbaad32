"""Lock of a save folder: a second job that would save there is refused before it trains.

The operating system releases a file lock (flock) when its process ends for any reason, so a dead
job holds no lock. The lock works between containers of one machine, and between machines if the
shared file system passes locks on, as NFS does. The file stays: if it were removed, a job that
had just opened it would hold a lock that no other job can find."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError

NAME = "saving.lock"


def lock_on_first(folder: Path) -> list[IO[str]]:
    """Return the locked file on rank 0, and nothing on other ranks. All ranks call this and raise
    any error."""
    held: list[IO[str]] = []
    from_first(lambda: held.append(lock(folder)))
    return held


def lock(folder: Path) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / NAME).open("w")
    except OSError as error:
        raise CheckpointError(
            f"cannot save to {folder}: {error.strerror}; give --save a writable folder on a disk "
            "with free space"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"another job is already saving to {folder}; wait for it, end it, or give another "
            "--save"
        ) from None
    except OSError:  # some Lustre mounts have no locks
        print(f"WARNING: two jobs could save to {folder}: its file system has no locks", flush=True)
    return file
