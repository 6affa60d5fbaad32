"""Submitting so that nothing is submitted twice and nothing is lost, whenever we are killed.

The job is submitted held, with a mark as its comment; then its folder is made, then the record,
then it is released. Whatever was left half done is found by its mark and finished by the next
call:

    killed before sbatch          the intent names no job: forgotten
    killed before the record      the job is in the queue with the mark: adopted
    killed before the release     the record says so: released
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.lab.compiled_code import COMPILED_CODE, is_chosen
from course_lib.lab.errors import SlurmError, WorkspaceError
from course_lib.lab.job import own_files
from course_lib.lab.job.recipe import DEVICE_MEMORY, Recipe
from course_lib.lab.job.run_paths import RunPaths
from course_lib.lab.job.script import Script, key, log_pattern, render
from course_lib.lab.job.site import Site
from course_lib.lab.job.sources import digest
from course_lib.lab.queue.jobs import Jobs
from course_lib.lab.queue.records import Record, Told
from course_lib.lab.queue.slurm import DEFAULTS_OF_THE_USER, QueueRow, job_environment
from course_lib.lab.workspace import Workspace, write_atomically, write_bytes_atomically, writing

PATIENCE_WITH_SBATCH_S = 20.0


@dataclass(frozen=True)
class Submission:
    """A recipe at a site, and what follows from the two, each computed once: the script, the key
    that names what would be run, the learner's own files, and the version of all programs."""

    recipe: Recipe
    site: Site
    script: Script
    key: str
    files: Mapping[str, bytes]
    program_digest: str

    @classmethod
    def of(cls, recipe: Recipe, site: Site) -> Submission:
        files = own_files.read(recipe, site)
        version = digest(recipe, site, files)
        return cls(recipe, site, render(recipe, site), key(recipe, site), files, version)


def submit(jobs: Jobs, wanted: Submission) -> Record:
    """Submits in any case; the caller holds the lock and has decided that it shall be."""
    recipe, text = wanted.recipe, wanted.script.text
    intent = Record(
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
    jobs.registry.intend(intent, Told(recipe_toml(recipe, wanted.site), text, wanted.files))
    try:
        job_id = _sbatch(jobs, intent, wanted)
    except SlurmError as error:
        # "Socket timed out" may come after the job was taken: look before giving up.
        row = _in_queue(jobs, intent) if error.exit_code != 127 else None
        if row is None:
            jobs.registry.drop_intent(intent)
            raise
        job_id = row.job_id
    return _finish(jobs, intent, job_id)


def repair(jobs: Jobs) -> list[Record]:
    """Finishes what an earlier call, killed in between, left half done; mostly nothing."""
    repaired = []
    intents = jobs.registry.intents()
    if intents:
        _await_sbatch(jobs.registry.workspace)
    for intent in intents:
        try:
            repaired += _repaired(jobs, intent)
        except (WorkspaceError, ValueError, KeyError, TypeError) as error:
            jobs.say(  # what cannot be finished is in nobody's way
                f"{intent.name}: a submission that was left half done cannot be finished: {error}. "
                f"To forget it, remove {jobs.registry.intent_path(intent)}"
            )
    for record in jobs.registry.all():
        if record.unfinished:
            is_held = _in_queue(jobs, record) is not None
            released = _release(jobs, record)
            repaired += [released] if is_held else []
    return repaired


def _repaired(jobs: Jobs, intent: Record) -> list[Record]:
    done = next((r for r in jobs.registry.all() if r.token == intent.token), None)
    row = None if done else _in_queue(jobs, intent)
    if row is not None:
        return [_finish(jobs, intent, row.job_id)]
    jobs.registry.drop_intent(intent)
    return []


def recipe_toml(recipe: Recipe, site: Site) -> str:
    import tomli_w

    table = {"recipe": recipe.to_dict(), "site": site.to_dict()}
    return tomli_w.dumps(table, multiline_strings=True)


def _sbatch(jobs: Jobs, intent: Record, wanted: Submission) -> int:
    options = ["--hold", f"--comment={intent.mark}"]
    workspace, name = jobs.registry.workspace, wanted.recipe.name
    if wanted.recipe.script:
        options += [f"--job-name={name}", f"--output={log_pattern(workspace.runs, name)}"]
    with workspace.submitting() as descriptor:
        here = dict(jobs.slurm.here)
        if not is_chosen(here):
            here[COMPILED_CODE] = str(workspace.compiled_code())
        inherited = environment(here, wanted.recipe, wanted.site)
        return jobs.slurm.submit(
            wanted.script.text, options, inherited, workspace.folder, (descriptor,)
        )


def environment(here: Mapping[str, str], recipe: Recipe, site: Site) -> dict[str, str]:
    """What the job inherits; a link or device memory chosen for the box goes along. Its nodes
    set the variable of a device's memory themselves, so that of a recipe has to reach them."""
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


def _finish(jobs: Jobs, intent: Record, job_id: int) -> Record:
    """Folder, record, release, in this order; every step may be done again."""
    told = jobs.registry.told(intent)
    paths = RunPaths.of(jobs.registry.workspace.runs, intent.name, job_id)
    with writing(paths.folder):
        _make_room(jobs, paths)
        paths.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(paths.recipe, told.recipe_toml)
    write_atomically(paths.script, told.script)
    for name, content in told.files.items():
        write_bytes_atomically(paths.program / name, content)
    record = jobs.registry.save(replace(intent, job_id=job_id, folder=paths.folder.name))
    jobs.registry.drop_intent(intent)
    return _release(jobs, record)


def _make_room(jobs: Jobs, paths: RunPaths) -> None:
    """A box made anew counts its jobs from 1 again; the older run steps aside."""
    folder, older = paths.folder, jobs.registry.owner_of(paths.folder)
    if not folder.exists() or (older is None and _is_empty_start(paths)):
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    if older is not None:
        jobs.registry.update(older, folder=aside.name)


def _is_empty_start(paths: RunPaths) -> bool:
    """What `_finish` itself leaves when it is killed in between."""
    names = {path.name for path in paths.folder.iterdir() if not path.name.startswith(".")}
    return names <= {paths.recipe.name, paths.script.name, paths.program.name}


def _release(jobs: Jobs, record: Record) -> Record:
    try:
        jobs.slurm.release(record.job_id)
    except SlurmError:
        # Released before by the call that was killed, cancelled by hand, or already over.
        row = _in_queue(jobs, record)
        if row is not None and row.status.reason.startswith("JobHeld"):
            raise
    jobs.forget()
    return jobs.registry.update(record, released=True)


def _in_queue(jobs: Jobs, record: Record) -> QueueRow | None:
    rows = jobs.slurm.queue()
    return next((row for row in rows if row.comment == record.mark), None)


def _await_sbatch(workspace: Workspace) -> None:
    """An sbatch that outlived its notebook may still be about to submit."""
    end_s = time.monotonic() + PATIENCE_WITH_SBATCH_S
    while workspace.sbatch_is_at_work() and time.monotonic() < end_s:
        time.sleep(0.1)


def check_writable(workspace: Workspace) -> None:
    with writing(workspace.folder):
        workspace.runs.mkdir(parents=True, exist_ok=True)
        workspace.records.mkdir(parents=True, exist_ok=True)
