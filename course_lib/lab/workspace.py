"""The folder in which a learner works: runs, job records, site file, budget, lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from course_lib.lab.errors import LabError, WorkspaceError
from course_lib.lab.plain_files import account, without_waiting

PACKAGE = Path(__file__).resolve().parent.parent
SITE_FILE = "site.toml"
LEAST_FREE_BYTES = 16 * 1024
"""What the record of a run and its script need."""


@dataclass(frozen=True)
class Workspace:
    """Everything that the course writes lies below `folder`."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def work(self) -> Path:
        """For the learner's own programs; made when it is first asked for."""
        folder = self.folder / "work"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def state(self) -> Path:
        return self.folder / ".course"

    @property
    def records(self) -> Path:
        return self.state / "jobs"

    @property
    def kept(self) -> Path:
        """Runs that were cleaned, kept for a recording."""
        return self.state / "kept"

    @property
    def elsewhere(self) -> Path:
        """Recorded runs of other clusters, unpacked to be read."""
        return self.state / "elsewhere"

    @property
    def site_file(self) -> Path:
        return self.folder / SITE_FILE

    def compiled_code(self) -> Path:
        """Where torch.compile is to keep what it makes: in `/tmp`, where it would, another account
        may have made the folder before, and decides what code a compiled model runs."""
        folder = self.state / "compiled"
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)  # refused where it is not ours
        return folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One submission at a time in this workspace, over all notebooks and machines."""
        with _lock(self.state / "lock"):
            yield

    @contextlib.contextmanager
    def submitting(self) -> Iterator[int]:
        """A second lock whose descriptor is handed to `sbatch`: it stays taken until that has
        ended, even if the notebook was killed while it waited for the answer."""
        with _lock(self.state / "sbatch.lock") as file:
            yield file.fileno()

    def sbatch_is_at_work(self) -> bool:
        path = self.state / "sbatch.lock"
        if not path.exists():
            return False
        with writing(path), open(path, "a", opener=without_waiting) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def full_disk(self) -> str:
        """A sentence where nothing more can be written here; else empty."""
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return ""
        is_full = disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES
        no_files = bool(disk.f_files) and disk.f_favail == 0
        return _full(self.folder) if is_full or no_files else ""


def find(start: Path | None = None) -> Workspace:
    """`COURSE_WORKSPACE`, else the nearest folder upwards that has a site file, records, or the
    course's notebooks in it, else the folder where we are."""
    if chosen := os.environ.get("COURSE_WORKSPACE"):
        return Workspace(_named(chosen))
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise WorkspaceError("the folder that you stand in was deleted; `cd` to another") from error
    for folder in (here, *here.parents):
        marks = (folder / SITE_FILE, folder / ".course", folder / "notebooks" / "00_the_lab.ipynb")
        if any(mark.exists() for mark in marks) or _is_checkout(folder):
            return Workspace(folder)
    return Workspace(here)


def _named(chosen: str) -> Path:
    """The folder that COURSE_WORKSPACE says; scripts and records, which name it, are UTF-8."""
    try:
        chosen.encode()
        return Path(chosen).expanduser().resolve()
    except (RuntimeError, ValueError) as error:
        why = "there is no such home" if isinstance(error, RuntimeError) else "it is not UTF-8"
        raise WorkspaceError(
            f"COURSE_WORKSPACE={chosen!a} names no folder: {why}; write the whole path"
        ) from error
    except OSError as error:
        raise WorkspaceError(f"COURSE_WORKSPACE={chosen!r}: {error.strerror}") from error


def programs_folder() -> Path:
    """`code/` of the checkout; in an installed package the same files lie beside the rooms."""
    for folder in (PACKAGE.parent / "code", PACKAGE / "programs"):
        if (folder / "pretrain_gpt.py").exists() or (folder / "README.md").exists():
            return folder
    raise LabError(f"the programs of the course are not beside {PACKAGE}; install it again")


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Whoever reads finds the old text or the new one, never half of it."""
    write_bytes_atomically(path, text.encode(), mode)


def write_bytes_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(descriptor, mode)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the system refuses while this is written, as a sentence."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(_why_not(path, error)) from error


def _why_not(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return (
        f"{account()} cannot write to {path} ({error.strerror}); work in a folder of your "
        "own, or name one with COURSE_WORKSPACE"
    )


def _full(path: Path) -> str:
    return (
        f"the disk that holds {path} is full, or your share of it: free some space "
        "(`course clean` shows which runs could go). Jobs that run go on"
    )


def write_json(path: Path, table: dict[str, Any], mode: int = 0o600) -> None:
    write_atomically(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n", mode)


def _is_checkout(folder: Path) -> bool:
    return (folder / "lessons").is_dir() and (folder / "course_lib").is_dir()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[IO[str]]:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a", opener=without_waiting)  # noqa: SIM115  # closed below
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise LabError(
                f"{path} cannot be locked ({error.strerror}): its file system does not lock files, "
                "so two notebooks could submit the same run twice. Set COURSE_WORKSPACE to a "
                "folder on another one, such as your scratch space"
            ) from error
        yield file
