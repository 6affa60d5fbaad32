"""The folder in which a learner works, and the folder of each run in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError, WorkspaceError
from course_lib.shipped import SHIPPED
from course_lib.words import _

PACKAGE = Path(__file__).resolve().parent.parent
SITE_FILE = "site.toml"


@dataclass(frozen=True)
class Workspace:
    """The learner's folder. Everything that the course writes lies below `folder`."""

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
        """Return the folder for the learner's own programs, and create it if needed."""
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
        """Return the folder of cleaned runs that are kept for a recording."""
        return self.state / "kept"

    @property
    def elsewhere(self) -> Path:
        """Return the folder in which recorded runs of other clusters are unpacked."""
        return self.state / "elsewhere"

    @property
    def site_file(self) -> Path:
        return self.folder / SITE_FILE

    def compiled_code(self) -> Path:
        """Return a private folder for code that torch.compile makes. In torch's default, `/tmp`,
        another account may own the folder and could decide what code a compiled model runs."""
        folder = self.state / "compiled"
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)  # fails if the folder belongs to another account
        return folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the workspace, so that only one notebook or machine submits at a time. `sbatch`
        inherits the descriptor and keeps the lock until it ends, even if the notebook is killed."""
        path = self.state / "lock"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a", encoding="utf-8")  # closed below
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise LabError(
                    _(
                        "{path} cannot be locked ({strerror}), because its file system does not "
                        "support locks. Two notebooks could then submit the same run twice. Set "
                        "COURSE_WORKSPACE to a folder on a different file system, such as scratch",
                        path=path,
                        strerror=error.strerror,
                    )
                ) from error
            yield file.fileno()


def find() -> Workspace:
    """Find the workspace: `COURSE_WORKSPACE`, else the nearest folder upwards with a site file,
    records or the course's notebooks, else the current folder."""
    if chosen := os.environ.get("COURSE_WORKSPACE"):
        return Workspace(Path(chosen).expanduser().resolve())
    here = Path.cwd().resolve()
    marks = (SITE_FILE, ".course", "notebooks/00_the_lab.ipynb")
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in marks):
            return Workspace(folder)
    return Workspace(here)


def programs_folder() -> Path:
    """Return the folder of the programs that jobs run."""
    return SHIPPED / "code"


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file so that readers find either the old text or the whole new text."""
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
    """Turn system errors during writing into a WorkspaceError with advice."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(_why_not(path, error)) from error


def _why_not(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _(
            "the disk of {path} is full, or your quota is used up. Free some space; `course "
            "clean` lists runs that you can delete. Running jobs continue",
            path=path,
        )
    return _(
        "{value} cannot write to {path} ({strerror}); work in a folder of your "
        "own, or set COURSE_WORKSPACE to one",
        value=account(),
        path=path,
        strerror=error.strerror,
    )


def write_json(path: Path, table: dict[str, Any], mode: int = 0o600) -> None:
    write_atomically(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n", mode)


def plain(path: Path) -> Path:
    """Return the path of a regular file. Pipes and devices count as missing; they may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise FileNotFoundError(errno.ENOENT, _("it is not a regular file"), str(path))
    return path


def account() -> str:
    """Return the account as Slurm names it. USER may be missing or name another account. An account
    without a name, as in some containers, is returned as its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"
# Part of torch's default path, a folder in `/tmp` whose name other accounts can guess. A process
# that imported torch has this path in its environment, and its children inherit it.
OF_TORCH = "/torchinductor_"


def is_chosen(environment: Mapping[str, str]) -> bool:
    return OF_TORCH not in environment.get(COMPILED_CODE, OF_TORCH)


# Name of the folder with the learner's own files inside a run's folder.
PROGRAM = "program"


def folder_name(name: str, job_id: object) -> str:
    """Return the name of a run's folder. `job_id` may be a placeholder for an unknown number."""
    return f"{name}-{job_id}"


class RunPaths:
    """Paths of the files in one run's folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.recipe = folder / "recipe.toml"  # the request
        self.script = folder / "job.sbatch"  # the submitted script
        self.log = folder / "out.log"  # the job's output
        self.program = folder / PROGRAM  # the learner's own files, as submitted
        self.verdict = folder / "verdict"  # the result of a trial, by rank
        self.exit_code = folder / "exit_code"  # written by the trap of the script
        self.tensorboard = folder / "tensorboard"
        self.profile = folder / "profile"
        self.memory = folder / "memory"
        self.snapshots = folder / "snapshots"
        self.links = folder / "links.json"
        self.diary = folder / "diary"  # each rank's records of each step
        self.flight = folder / "flight"  # the last collectives of each rank, after a failure
        self.stacks = folder / "stacks"  # the position of every rank when it was asked
        self.monitor = folder / "monitor"
        self.checkpoints = folder / "checkpoints"

    @classmethod
    def of(cls, runs: Path, name: str, job_id: object) -> RunPaths:
        return cls(runs / folder_name(name, job_id))

    def read_exit_code(self) -> int | None:
        """Return the exit code, or None if the file is missing or, after a full disk, empty."""
        try:
            text = plain(self.exit_code).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return int(text) if text.isdecimal() else None
