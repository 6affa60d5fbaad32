"""Records of all jobs that the lab submitted, one small file each.

A folder under `runs/` belongs to the course only if a record names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, UnknownRunError, WorkspaceError
from course_lib.lab.job.recipe import Recipe, read_text
from course_lib.lab.queue.slurm import UNKNOWN, Status
from course_lib.lab.workspace import RunPaths, Workspace, plain, write_json, writing
from course_lib.words import _

# Replaces a cluster's name if the run was made elsewhere and handed out from a recording.
RECORDED = "recorded"


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of a submitted job. `token` is the mark in the job's comment. `job_id` is 0 until
    sbatch has answered. The job is held until it is `released`. `final` is its last status, which
    is kept because Slurm forgets its jobs."""

    token: str
    name: str
    key: str
    job_id: int = 0
    program_digest: str = ""
    folder: str = ""
    site: str = ""
    cluster: str = ""
    submitted_unix_s: float = 0.0
    devices: int = 0
    time_limit_minutes: int = 0
    released: bool = False
    cancel_asked: bool = False
    cleaned: bool = False
    final: Mapping[str, Any] | None = None
    # Where and when a run was recorded elsewhere.
    origin: str = ""

    @property
    def mark(self) -> str:
        return f"course:{self.token}"

    @property
    def status(self) -> Status | None:
        """Return the final status, or None if the job is not known to have ended."""
        return Status(**self.final) if self.final else None

    @property
    def device_hours(self) -> float:
        """Return the used device-hours of an ended job, or else the highest possible number."""
        status = self.status
        if status is None or status.elapsed_s is None:
            ended_unstarted = status is not None and status.state == "CANCELLED"
            return 0.0 if ended_unstarted else self.devices * self.time_limit_minutes / 60
        return self.devices * status.elapsed_s / 3600


@dataclass(frozen=True)
class Registry:
    workspace: Workspace

    def all(self) -> list[Record]:
        """Return the records of submitted jobs, newest last."""
        return [record for record in self._records() if record.job_id]

    def unfinished(self) -> list[Record]:
        """Return the submissions that stayed incomplete because the notebook was killed."""
        return [r for r in self._records() if not r.released and r.status is None]

    def save(self, record: Record) -> Record:
        write_json(self._path(record), asdict(record))
        return record

    def forget(self, record: Record) -> None:
        with writing(self._path(record)):
            self._path(record).unlink(missing_ok=True)

    def update(self, record: Record, **changes: Any) -> Record:
        return self.save(replace(record, **changes))

    def settle(self, record: Record, status: Status) -> Record:
        """Record that a job has ended. If the disk is full, a later query records it."""
        try:
            return self.update(record, final=asdict(status))
        except WorkspaceError:
            return record

    def paths(self, record: Record) -> RunPaths:
        return RunPaths(self.workspace.runs / record.folder)

    def owner_of(self, folder: Path) -> Record | None:
        """Return the record that names this folder, or None."""
        return next((r for r in self.all() if r.folder == folder.name and not r.cleaned), None)

    def _path(self, record: Record) -> Path:
        return self.workspace.records / f"{record.name}-{record.token}.json"

    def _records(self) -> list[Record]:
        """Return all readable records. Damaged files are skipped."""
        read = map(_read, self.workspace.records.glob("*.json"))
        found = [record for record in read if record]
        return sorted(found, key=lambda record: (record.submitted_unix_s, record.job_id))


def recorded(folder: Path) -> Record:
    """Make a record from a run folder that has no record."""
    paths = RunPaths(folder.resolve())
    if not paths.recipe.is_file():
        raise UnknownRunError(
            _(
                "{folder} is not a run folder, because it has no {name}",
                folder=folder,
                name=paths.recipe.name,
            )
        )
    text = read_text(paths.recipe, RecipeError)
    recipe = Recipe.from_toml(text, str(paths.recipe))
    number = folder.name.rpartition("-")[2]
    code = paths.read_exit_code()
    state = UNKNOWN if code is None else "FAILED" if code else "COMPLETED"
    status = Status(state=state, exit_code=code, source="exit_code")
    return Record(
        token="", name=recipe.name, key="", job_id=int(number) if number.isdecimal() else 0,
        folder=str(paths.folder), devices=recipe.devices, released=True, final=asdict(status),
        time_limit_minutes=recipe.time_limit_minutes,
    )  # fmt: skip


def _read(path: Path) -> Record | None:
    import msgspec

    try:
        record = msgspec.json.decode(plain(path).read_bytes(), type=Record)
        if record.final is not None:
            msgspec.convert(asdict(Status(**record.final)), Status)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return record if Path(record.folder).name == record.folder != ".." else None
