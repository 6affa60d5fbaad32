"""One job at a time saves into a folder; the second is refused before it trains.

The operating system locks an open file (flock) and lets go of it when its process ends, however it
ends: the lock of a dead job is free. That holds between containers of one machine, whose process
numbers mean nothing to each other, and between machines where the shared file system passes locks
on, as NFS does. Where it knows no locks (some Lustre mounts), what the file says has to do: a
process of this machine that is gone is known to be dead, of another machine one cannot tell.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import IO, Any

from checkpoints.agreement import from_first
from checkpoints.files import CheckpointError

NAME = "saving.lock"


class SavingLock:
    """Held from its making until `release`, or until the process ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file = self._taken()
            self.file.truncate(0)
            json.dump(_this_job(), self.file)
            self.file.flush()
        except OSError as error:
            raise CheckpointError(
                f"nothing can be saved to {folder}: {error.strerror}; give --save a folder that "
                f"you may write to, on a disk with room"
            ) from error

    @staticmethod
    def of_first_rank(folder: Path) -> list[SavingLock]:
        """Its lock on rank 0, an empty list elsewhere; refused on all. All ranks call this."""
        held: list[SavingLock] = []
        from_first(lambda: held.append(SavingLock(folder)))
        return held

    def _taken(self) -> IO[str]:
        while True:
            file = self.path.open("a+")  # made if need be, never emptied: it may be another job's
            self._lock(file)
            # The job before may have deleted the file between our opening and our locking it: then
            # we hold a lock on a file that nobody finds any more.
            try:
                if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    return file
            except FileNotFoundError:
                pass
            file.close()

    def _lock(self, file: IO[str]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refusal(_owner(file)) from None
        except OSError:  # this file system knows no locks
            owner = _owner(file)
            if owner and not _is_dead(owner):
                raise self._refusal(owner) from None

    def _refusal(self, owner: dict[str, Any]) -> CheckpointError:
        job = f"job {owner.get('id')} ({owner.get('job')})" if owner.get("id") else "a process"
        where = f", host {owner.get('host')}, process {owner.get('process')}," if owner else ""
        return CheckpointError(
            f"{job}{where} is saving to {self.path.parent}, and two would overwrite each other's "
            f"checkpoints; wait for it, end it, or give another --save. (The lock is {NAME} in "
            f"that folder; delete it only if that job is not running any more.)"
        )

    def release(self) -> None:
        self.path.unlink(missing_ok=True)  # while it is locked: see _taken
        self.file.close()


def _this_job() -> dict[str, Any]:
    return {
        "job": os.environ.get("SLURM_JOB_NAME"),
        "id": os.environ.get("SLURM_JOB_ID"),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "namespace": _namespace(),
    }


def _namespace() -> str:
    """In another one (a container), the same process number is another process."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _owner(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        owner = json.loads(file.read())
    except ValueError:  # just opened by its owner, or cut off: nobody is known
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_dead(owner: dict[str, Any]) -> bool:
    if (owner.get("host"), owner.get("namespace")) != (socket.gethostname(), _namespace()):
        return False
    return not Path(f"/proc/{owner.get('process')}").exists()
