"""Lock of a save folder: a second job that would save there is refused before it trains.

The operating system releases a file lock (flock) when its process ends for any reason, so a dead
job holds no lock. The lock works between containers of one machine, and between machines if the
shared file system passes locks on, as NFS does."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import IO

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError

NAME = "saving.lock"


class SavingLock:
    """Lock that is held from construction until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = self._locked()
            self.file.truncate(0)
            self.file.write(_this_job())
            self.file.flush()
        except OSError as error:
            raise CheckpointError(
                f"cannot save to {folder}: {error.strerror}; give --save a writable folder on a "
                "disk with free space"
            ) from error

    @staticmethod
    def of_first_rank(folder: Path) -> list[SavingLock]:
        """Return the lock on rank 0 and an empty list on other ranks. All ranks call this and raise
        any error."""
        held: list[SavingLock] = []
        from_first(lambda: held.append(SavingLock(folder)))
        return held

    def _locked(self) -> IO[str]:
        while True:
            file = self.path.open("a+")  # created if missing, never emptied: another job may use it
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise self._refusal(file.read(1000)) from None
            except OSError:  # some Lustre mounts have no locks
                print(
                    f"WARNING: the file system of {self.path.parent} has no locks, so two jobs "
                    "with this --save would overwrite each other's checkpoints",
                    flush=True,
                )
                return file
            # The previous job may have deleted the file after this process opened it and before it
            # locked it. Then the lock is on a file that no other process can find.
            if self.path.exists() and os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                return file
            file.close()

    def _refusal(self, owner: str) -> CheckpointError:
        return CheckpointError(
            f"{owner or 'a process'} is already saving to {self.path.parent}; wait for it, end "
            "it, or give another --save"
        )

    def release(self) -> None:
        self.path.unlink(missing_ok=True)  # while it is locked: see _locked
        self.file.close()


def _this_job() -> str:
    number, name = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NAME")
    job = f"job {number} ({name})" if number else "a process"
    return f"{job}, host {socket.gethostname()}, process {os.getpid()},"
