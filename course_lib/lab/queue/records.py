"""What the lab remembers of every job that it submitted, one small file each.

A folder under `runs/` counts as the course's own only if such a record names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, UnknownRunError, WorkspaceError
from course_lib.lab.job import value_types
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.run_paths import RunPaths
from course_lib.lab.plain_files import plain
from course_lib.lab.queue.states import UNKNOWN, Status
from course_lib.lab.workspace import Workspace, write_json, writing

LATEST_UNIX_S = 1e11
"""The year 5138: later is no time of a submission, and more than calendars can say."""
INTENT = ".intent.json"
RECORDED = "recorded"
"""In place of a cluster's name: the run was made elsewhere, and handed out from a recording."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """`token` is the mark that the job carries as its comment; `final` is its last status, kept
    because Slurm forgets; `released` is false between submission and the folder being there."""

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
    origin: str = ""
    """Of a run that was recorded elsewhere: where and when."""

    @property
    def mark(self) -> str:
        return f"course:{self.token}"

    @property
    def status(self) -> Status | None:
        """The final status, if the job is known to have ended."""
        return Status(**self.final) if self.final else None

    @property
    def unfinished(self) -> bool:
        """Submitted, and as far as we know still held: whoever submitted it was killed."""
        return not self.released and self.status is None

    @property
    def device_hours(self) -> float:
        """Used, if it has ended; else what it may use at most."""
        status = self.status
        if status is None or status.elapsed_s is None:
            ended_unstarted = status is not None and status.state == "CANCELLED"
            return 0.0 if ended_unstarted else self.devices * self.time_limit_minutes / 60
        return self.devices * status.elapsed_s / 3600


@dataclass(frozen=True)
class Told:
    """What goes into the folder of a run before it starts."""

    recipe_toml: str
    script: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Registry:
    workspace: Workspace

    def all(self) -> list[Record]:
        """Submitted jobs, the newest last. A damaged file is passed over: it names nothing."""
        records = [_read(path) for path in self._files("*.json") if not path.name.endswith(INTENT)]
        found = [record for record in records if record and record.job_id]
        return sorted(found, key=lambda record: (record.submitted_unix_s, record.job_id))

    def intents(self) -> list[Record]:
        """Submissions that were begun and not recorded as done."""
        records = [_read(path) for path in self._files(f"*{INTENT}")]
        return [record for record in records if record]

    def told(self, intent: Record) -> Told:
        table = json.loads(plain(self.intent_path(intent)).read_text(encoding="utf-8"))
        files = table.get("files", {})
        content = {name: text.encode("latin-1") for name, text in files.items()}
        return Told(table["recipe_toml"], table["script"], content)

    def intend(self, record: Record, told: Told) -> None:
        # Latin-1 has a letter for every byte, so that files come back as they were.
        files = {name: content.decode("latin-1") for name, content in told.files.items()}
        table = {"recipe_toml": told.recipe_toml, "script": told.script, "files": files}
        write_json(self.intent_path(record), asdict(record) | table)

    def drop_intent(self, record: Record) -> None:
        with writing(self.intent_path(record)):
            self.intent_path(record).unlink(missing_ok=True)

    def save(self, record: Record) -> Record:
        name = f"{record.name}-{record.job_id}-{record.token}.json"
        write_json(self.workspace.records / name, asdict(record))
        return record

    def update(self, record: Record, **changes: Any) -> Record:
        return self.save(replace(record, **changes))

    def settle(self, record: Record, status: Status) -> Record:
        """On a full disk it is written down at a later look."""
        try:
            return self.update(record, final=asdict(status))
        except WorkspaceError:
            return record

    def paths(self, record: Record) -> RunPaths:
        return RunPaths(self.workspace.runs / record.folder)

    def unfinished(self) -> bool:
        """Whether a submission was begun and not finished."""
        return bool(self.intents()) or any(record.unfinished for record in self.all())

    def owner_of(self, folder: Path) -> Record | None:
        """The record that names this folder, if the course made it."""
        return next((r for r in self.all() if r.folder == folder.name and not r.cleaned), None)

    def intent_path(self, record: Record) -> Path:
        return self.workspace.records / f"{record.token}{INTENT}"

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.workspace.records.glob(pattern))


def recorded(folder: Path) -> Record:
    """For a run folder that no record names: what the folder itself tells."""
    paths = RunPaths(folder.resolve())
    if not paths.recipe.is_file():
        raise UnknownRunError(f"{folder} is no run folder: it has no {paths.recipe.name}")
    text = value_types.read_text(paths.recipe, RecipeError)
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
    is_below_runs = Path(record.folder).name == record.folder != ".."
    is_a_time = 0 <= record.submitted_unix_s < LATEST_UNIX_S
    return record if is_below_runs and is_a_time else None
