"""The folder in which a learner works: runs, job records, site file, budget, lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from course_lib.lab.errors import LabError

PACKAGE = Path(__file__).resolve().parent.parent
SITE_FILE = "site.toml"


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
    def state(self) -> Path:
        return self.folder / ".course"

    @property
    def records(self) -> Path:
        return self.state / "jobs"

    @property
    def site_file(self) -> Path:
        return self.folder / SITE_FILE

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
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def find(start: Path | None = None) -> Workspace:
    """`COURSE_WORKSPACE`, else the nearest folder upwards that has a site file, records, or the
    course's notebooks in it, else the folder where we are."""
    if chosen := os.environ.get("COURSE_WORKSPACE"):
        return Workspace(Path(chosen).expanduser().resolve())
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        marks = (folder / SITE_FILE, folder / ".course", folder / "notebooks" / "00_the_lab.ipynb")
        if any(mark.exists() for mark in marks) or _is_checkout(folder):
            return Workspace(folder)
    return Workspace(here)


def programs_folder() -> Path:
    """`code/` of the checkout; in an installed package the same files lie beside the rooms."""
    for folder in (PACKAGE.parent / "code", PACKAGE / "programs"):
        if (folder / "pretrain_gpt.py").exists() or (folder / "README.md").exists():
            return folder
    raise LabError(f"the programs of the course are not beside {PACKAGE}; install it again")


def write_atomically(path: Path, text: str) -> None:
    """Whoever reads finds the old text or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, table: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def _is_checkout(folder: Path) -> bool:
    return (folder / "lessons").is_dir() and (folder / "course_lib").is_dir()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[IO[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise LabError(
                f"{path} cannot be locked ({error.strerror}): its file system does not lock files, "
                "so two notebooks could submit the same run twice. Set COURSE_WORKSPACE to a "
                "folder on another one, such as your scratch space"
            ) from error
        yield file
