"""Hands out a recorded run as if it had been submitted: its folder, and a record that it ended."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from course_lib.lab.errors import LabError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.site import Site
from course_lib.lab.queue.records import RECORDED, Record, Registry, recorded
from course_lib.lab.queue.slurm import QueueRow, Slurm
from course_lib.lab.queue.states import Status
from course_lib.lab.queue.submission import Submission
from course_lib.lab.recorded.recording import RecordingError
from course_lib.lab.recorded.shelf import Found, Shelf
from course_lib.lab.workspace import Workspace, writing


def lend(registry: Registry, wanted: Submission) -> tuple[Record, Found]:
    """The caller holds the lock of the workspace."""
    found = Shelf.of(registry.workspace).find(wanted.recipe, wanted.site, wanted.files)
    folder = _unpacked(found, registry.workspace)
    try:
        status = msgspec.convert(found.run.status, Status)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{found.recording.path.name}: status of a run: {error}") from error
    record = Record(
        token=uuid.uuid4().hex[:16], name=found.run.name, key=wanted.key, job_id=found.run.job_id,
        program_digest=wanted.program_digest, folder=folder.name, site=wanted.site.name,
        cluster=RECORDED, submitted_unix_s=found.run.submitted_unix_s,
        devices=wanted.recipe.devices, time_limit_minutes=wanted.recipe.time_limit_minutes,
        origin=found.words, released=True, final=msgspec.to_builtins(status),
    )  # fmt: skip
    return registry.save(record), found


def others(workspace: Workspace, recipe: Recipe, site: Site) -> list[Record]:
    """Runs of other clusters, to be read: they lie beside the runs of this workspace."""
    records = []
    for found in Shelf.of(workspace).elsewhere(recipe, site):
        folder = workspace.elsewhere / found.recording.path.stem / found.run.folder
        if not folder.is_dir():
            _into(found, folder)
        records.append(replace(recorded(folder), origin=found.words))
    return records


def _unpacked(found: Found, workspace: Workspace) -> Path:
    """Its folder below `runs/`: whole, or not there at all."""
    target, number = workspace.runs / found.run.folder, 0
    while target.exists():  # of a run that was made here, or was handed out before
        number += 1
        target = workspace.runs / f"{found.run.folder}.{number}"
    _into(found, target)
    return target


def _into(found: Found, target: Path) -> None:
    with writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished.", dir=target.parent))
        try:
            found.recording.unpack(found.run, unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


@dataclass(frozen=True)
class NoSlurm(Slurm):
    """What stands where nothing can be asked: no queue, no jobs."""

    def call(self, *words: str, **more: Any) -> str:
        raise LabError(f"{words[0]}: nothing runs here, the runs of this lab were recorded")

    def cluster(self) -> str:
        return RECORDED

    def queue(self) -> list[QueueRow]:
        return []

    def accounting(self, job_ids: Any) -> dict[int, tuple[str, Status]]:
        return {}
