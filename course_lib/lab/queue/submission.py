"""Submission that never submits a run twice or loses one, even if the process is killed.

The folder and the record are created first, without a job number. The job is submitted on hold,
with a mark as its comment. Folder and record get the job's number, and then the job is released.
The next call completes an interrupted submission:

    killed before sbatch          no job has the mark: folder and record are removed
    killed before the number      the job is in the queue with the mark: its number is taken
    killed before the release     the record says so: the job is released
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.lab.errors import SlurmError
from course_lib.lab.job.program_files import digest, read_files
from course_lib.lab.job.recipe import DEVICE_MEMORY, Recipe
from course_lib.lab.job.script import Script, key, log_pattern, render
from course_lib.lab.job.site import Site
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.records import Record
from course_lib.lab.queue.slurm import DEFAULTS_OF_THE_USER, JobRow, job_environment
from course_lib.lab.workspace import (
    COMPILED_CODE,
    RunPaths,
    Workspace,
    is_chosen,
    write_atomically,
    write_bytes_atomically,
    writing,
)


@dataclass(frozen=True)
class Submission:
    """A recipe at a site, with values that follow from both: the script, a key that identifies the
    run, the learner's own files and the version of all programs. Each is computed once."""

    recipe: Recipe
    site: Site
    script: Script
    key: str
    files: Mapping[str, bytes]
    program_digest: str

    @classmethod
    def of(cls, recipe: Recipe, site: Site) -> Submission:
        files = read_files(recipe, site)
        version = digest(recipe, site, files)
        return cls(recipe, site, render(recipe, site), key(recipe, site), files, version)


def submit(jobs: Jobs, wanted: Submission, lock: int) -> Record:
    """Submit a run without further checks. The caller holds the lock and has decided to submit."""
    recipe = wanted.recipe
    record = Record(
        token=uuid.uuid4().hex[:16],
        name=recipe.name,
        key=wanted.key,
        program_digest=wanted.program_digest,
        site=wanted.site.name,
        cluster=jobs.cluster,
        submitted_unix_s=time.time(),
        devices=recipe.devices,
        time_limit_minutes=recipe.time_limit_minutes,
    )
    inherited = _inherited(jobs, wanted)
    jobs.slurm.test(wanted.script.text, inherited, jobs.registry.workspace.folder)
    _prepare(jobs, record, wanted)
    try:
        job_id = _sbatch(jobs, record, wanted, inherited, lock)
    except SlurmError as error:
        # "Socket timed out" may come after Slurm accepted the job, so look in the queue first.
        row = _in_queue(jobs, record) if error.exit_code != 127 else None
        if row is None:
            _drop(jobs, record)
            raise
        job_id = row.job_id
    return _finish(jobs, replace(record, job_id=job_id))


def repair(jobs: Jobs) -> None:
    """Complete submissions of earlier calls that were killed. Usually there are none."""
    for record in jobs.registry.unfinished():
        row = _in_queue(jobs, record)
        if job_id := record.job_id or (row.job_id if row else 0):
            _finish(jobs, replace(record, job_id=job_id))
        else:
            _drop(jobs, record)


def recipe_toml(recipe: Recipe, site: Site) -> str:
    import tomli_w

    table = {"recipe": recipe.to_dict(), "site": site.to_dict()}
    return tomli_w.dumps(table, multiline_strings=True)


def _prepare(jobs: Jobs, record: Record, wanted: Submission) -> None:
    """Write all files of the run to a temporary folder, renamed when the job number is known."""
    paths = RunPaths(_prepared(jobs, record))
    try:
        write_atomically(paths.recipe, recipe_toml(wanted.recipe, wanted.site))
        write_atomically(paths.script, wanted.script.text)
        for name, content in wanted.files.items():
            write_bytes_atomically(paths.program / name, content)
        jobs.registry.save(record)
    except BaseException:  # such as a full disk
        _drop(jobs, record)
        raise


def _prepared(jobs: Jobs, record: Record) -> Path:
    return jobs.registry.workspace.runs / f".submitting-{record.token}"


def _drop(jobs: Jobs, record: Record) -> None:
    shutil.rmtree(_prepared(jobs, record), ignore_errors=True)
    jobs.registry.forget(record)


def _sbatch(
    jobs: Jobs, record: Record, wanted: Submission, inherited: Mapping[str, str], lock: int
) -> int:  # fmt: skip
    options = ["--hold", f"--comment={record.mark}"]
    workspace, name = jobs.registry.workspace, wanted.recipe.name
    if wanted.recipe.script:
        options += [f"--job-name={name}", f"--output={log_pattern(workspace.runs, name)}"]
    return jobs.slurm.submit(wanted.script.text, options, inherited, workspace.folder, (lock,))


def _inherited(jobs: Jobs, wanted: Submission) -> dict[str, str]:
    """Return the variables that the job inherits, with a link or device memory chosen for the box.
    The box's nodes set the device memory themselves, so a recipe's value is passed on to them."""
    recipe, site, here = wanted.recipe, wanted.site, dict(jobs.slurm.here)
    if not is_chosen(here):
        here[COMPILED_CODE] = str(jobs.registry.workspace.compiled_code())
    decided = {name: getattr(site, name) for name in DEFAULTS_OF_THE_USER.values()}
    table = job_environment(here, decided)
    if site.link_gbit:
        table["COURSE_BOX_LINK_GBIT"] = f"{site.link_gbit:g}"
    device_memory_gib = site.device_memory_gib
    asked = recipe.environment.get(DEVICE_MEMORY, "")
    if site.box and asked.isdecimal():
        device_memory_gib = int(asked) / 2**30
    if device_memory_gib:
        table["COURSE_BOX_MEMORY_PER_DEVICE_GIB"] = f"{device_memory_gib:.9g}"
    return table


def _finish(jobs: Jobs, record: Record) -> Record:
    """Rename the folder, save the record and release the job. Every step can be repeated safely."""
    runs, prepared = jobs.registry.workspace.runs, _prepared(jobs, record)
    folder = RunPaths.of(runs, record.name, record.job_id).folder
    if prepared.exists():
        with writing(folder):
            _make_room(jobs, folder)
            prepared.rename(folder)
    return _release(jobs, jobs.registry.save(replace(record, folder=folder.name)))


def _make_room(jobs: Jobs, folder: Path) -> None:
    """Rename an older run's folder with the same number. A new box counts its jobs from 1 again."""
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    older = jobs.registry.owner_of(folder)
    folder.rename(aside)
    if older is not None:
        jobs.registry.update(older, folder=aside.name)


def _release(jobs: Jobs, record: Record) -> Record:
    try:
        jobs.slurm.release(record.job_id)
    except SlurmError:
        # Released by the call that was killed, cancelled by hand, or already over.
        row = _in_queue(jobs, record)
        if row is not None and row.status.reason.startswith("JobHeld"):
            raise
    jobs.forget()
    return jobs.registry.update(record, released=True)


def _in_queue(jobs: Jobs, record: Record) -> JobRow | None:
    rows = jobs.slurm.queue()
    return next((row for row in rows if row.comment == record.mark), None)


def check_writable(workspace: Workspace) -> None:
    with writing(workspace.folder):
        workspace.runs.mkdir(parents=True, exist_ok=True)
        workspace.records.mkdir(parents=True, exist_ok=True)
