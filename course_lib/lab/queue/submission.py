"""Submitting so that nothing is submitted twice and nothing is lost, whenever we are killed.

The job is submitted held, with a mark as its comment; then its folder is made, then the record,
then it is released. Whatever was left half done is found by its mark and finished by the next
call:

    killed before sbatch          the intent names no job: forgotten
    killed before the record      the job is in the queue with the mark: adopted
    killed before the release     the record says so: released
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.job.quote import file_pattern
from course_lib.lab.job.recipe import DEVICE_MEMORY, Recipe
from course_lib.lab.job.script import key, render
from course_lib.lab.job.site import Site
from course_lib.lab.job.sources import digest
from course_lib.lab.queue.poller import Poller
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.queue.slurm import QueueRow, Slurm, job_environment
from course_lib.lab.workspace import Workspace, write_atomically

PATIENCE_WITH_SBATCH_S = 20.0


@dataclass(frozen=True)
class Desk:
    """What a submission needs at hand."""

    workspace: Workspace
    registry: Registry
    slurm: Slurm
    poller: Poller
    site: Site
    cluster: Callable[[], str]


def submit(desk: Desk, recipe: Recipe) -> Record:
    """Submits in any case; the caller holds the lock and has decided that it shall be."""
    script = render(recipe, desk.site)
    toml = recipe_toml(recipe, desk.site)
    intent = Record(
        token=uuid.uuid4().hex[:16],
        name=recipe.name,
        key=key(recipe, desk.site),
        program_digest=digest(recipe, desk.site),
        site=desk.site.name,
        cluster=desk.cluster(),
        submitted_unix_s=time.time(),
        devices=recipe.devices,
        time_limit_minutes=recipe.time_limit_minutes,
    )
    desk.registry.intend(intent, toml, script.text)
    try:
        job_id = _sbatch(desk, intent, script.text, recipe)
    except SlurmError as error:
        # "Socket timed out" may come after the job was taken: look before giving up.
        row = _in_queue(desk, intent) if error.exit_code != 127 else None
        if row is None:
            desk.registry.drop_intent(intent)
            raise
        job_id = row.job_id
    return _finish(desk, intent, job_id)


def repair(desk: Desk) -> list[Record]:
    """Finishes what an earlier call, killed in between, left half done; mostly nothing."""
    repaired = []
    intents = desk.registry.intents()
    if intents:
        _await_sbatch(desk.workspace)
    for intent in intents:
        done = next((r for r in desk.registry.all() if r.token == intent.token), None)
        row = None if done else _in_queue(desk, intent)
        if row is not None:
            repaired.append(_finish(desk, intent, row.job_id))
        else:
            desk.registry.drop_intent(intent)
    for record in desk.registry.all():
        if not record.released and record.status is None:
            is_held = _in_queue(desk, record) is not None
            released = _release(desk, record)
            repaired += [released] if is_held else []
    return repaired


def recipe_toml(recipe: Recipe, site: Site) -> str:
    import tomli_w

    table = {"recipe": recipe.to_dict(), "site": site.to_dict()}
    return tomli_w.dumps(table, multiline_strings=True)


def _sbatch(desk: Desk, intent: Record, text: str, recipe: Recipe) -> int:
    options = ["--hold", f"--comment={intent.mark}"]
    if recipe.script:
        output = f"{file_pattern(desk.workspace.runs)}/{recipe.name}-%j/out.log"
        options += [f"--job-name={recipe.name}", f"--output={output}"]
    folder = desk.workspace.folder
    with desk.workspace.submitting() as descriptor:
        inherited = environment(desk, recipe)
        return desk.slurm.submit(text, options, inherited, folder, (descriptor,))


def environment(desk: Desk, recipe: Recipe) -> dict[str, str]:
    """What the job inherits; a link or device memory chosen for the box goes along. Its nodes
    set the variable of a device's memory themselves, so that of a recipe has to reach them."""
    here = desk.slurm.environment or os.environ
    decided = {name: getattr(desk.site, name) for name in ("account", "partition", "qos")}
    table = job_environment(here, decided | {"reservation": desk.site.reservation})
    if desk.site.link_gbit:
        table["COURSE_BOX_LINK_GBIT"] = f"{desk.site.link_gbit:g}"
    device_memory_gib = desk.site.device_memory_gib
    asked = recipe.environment.get(DEVICE_MEMORY, "")
    if desk.site.box and asked.isdecimal():
        device_memory_gib = int(asked) / 2**30
    if device_memory_gib:
        table["COURSE_BOX_MEMORY_PER_DEVICE_GIB"] = f"{device_memory_gib:.9g}"
    return table


def _finish(desk: Desk, intent: Record, job_id: int) -> Record:
    """Folder, record, release, in this order; every step may be done again."""
    toml, script = desk.registry.recipe_text(intent)
    folder = desk.workspace.runs / f"{intent.name}-{job_id}"
    _make_room(desk, folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "recipe.toml", toml)
    write_atomically(folder / "job.sbatch", script)
    record = desk.registry.save(replace(intent, job_id=job_id, folder=folder.name))
    desk.registry.drop_intent(intent)
    return _release(desk, record)


def _make_room(desk: Desk, folder: Path) -> None:
    """A box made anew counts its jobs from 1 again; the older run steps aside."""
    older = desk.registry.owner_of(folder)
    if not folder.exists() or (older is None and _is_empty_start(folder)):
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    if older is not None:
        desk.registry.update(older, folder=aside.name)


def _is_empty_start(folder: Path) -> bool:
    """What `_finish` itself leaves when it is killed in between."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    return names <= {"recipe.toml", "job.sbatch"}


def _release(desk: Desk, record: Record) -> Record:
    try:
        desk.slurm.release(record.job_id)
    except SlurmError:
        # Released before by the call that was killed, cancelled by hand, or already over.
        row = _in_queue(desk, record)
        if row is not None and row.status.reason.startswith("JobHeld"):
            raise
    desk.poller.forget()
    return desk.registry.update(record, released=True)


def _in_queue(desk: Desk, record: Record) -> QueueRow | None:
    rows = desk.slurm.queue()
    return next((row for row in rows if row.comment == record.mark), None)


def _await_sbatch(workspace: Workspace) -> None:
    """An sbatch that outlived its notebook may still be about to submit."""
    end_s = time.monotonic() + PATIENCE_WITH_SBATCH_S
    while workspace.sbatch_is_at_work() and time.monotonic() < end_s:
        time.sleep(0.1)


def check_writable(workspace: Workspace) -> None:
    try:
        workspace.runs.mkdir(parents=True, exist_ok=True)
        workspace.records.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"{getpass.getuser()} cannot write to {workspace.folder} ({error.strerror}); work in a "
            "folder of your own, or name one with COURSE_WORKSPACE"
        ) from error
