"""scontrol show."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.control.scontrol_call import UNKNOWN_JOB, ScontrolCall, complain
from course_lib.box.commands.shared import job_words
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.job_words import JobWord
from course_lib.box.dispatch import upkeep
from course_lib.box.hostlist import natural
from course_lib.box.queue import rows
from course_lib.box.queue.records import Job
from course_lib.box.scheduling import dependency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def show(call: ScontrolCall) -> int:
    words = call.words[1:]
    while words and words[0].startswith("-"):
        call.details |= "d" in words[0]
        call.one_line |= "o" in words[0]
        words = words[1:]
    if words and "=" in words[0]:  # `show job=12`
        words = [*words[0].split("=", 1), *words[1:]]
    if not words:
        return complain("too few arguments for keyword:show")
    if len(words) > 2:
        return complain("too many arguments for keyword:show")
    entity = words[0].lower()
    found = [name for name in ENTITIES if name.startswith(entity)]
    if entity in ENTITIES:
        found = [entity]
    if not found:
        return complain(f"invalid entity:{words[0]} for keyword:show ")
    if len(words) > 1 and not words[1] and found[0] == "hostnames":
        return 0
    return ENTITIES[found[0]](call, words[1] if len(words) > 1 else "")


def _say(paragraphs: list[str], call: ScontrolCall) -> None:
    for text in paragraphs:
        print(text.replace("\n   ", " ") if call.one_line else text + "\n")


SHOWN = "(state IN ('PENDING', 'RUNNING') OR completing = 1 OR end_s > ?)"
"""Jobs that have not ended, or not long ago."""


def _job(call: ScontrolCall, word: str) -> int:
    from course_lib.box.formats.job_view import JobView, estimate_starts
    from course_lib.box.formats.scontrol_job import job_paragraph

    meant = job_words.read(word)
    if word and meant is None:
        return complain(f"scontrol_print_job error: {UNKNOWN_JOB}")
    upkeep.try_to_bring_up_to_date()
    box = settings.load()
    with rows.snapshot() as db:
        where, values = SHOWN, [time.time() - box.job_shown_s]
        if meant is not None:
            where += " AND (id = ? OR array_job_id = ?)"
            values += [meant.job_id, meant.job_id]
        jobs = rows.jobs(db, where, tuple(values), rows.ALL_COLUMNS)
        known = bool(jobs)
        views = [JobView(job, rows.allocations(db, job.id)) for job in meant_jobs(jobs, meant)]
        for view in views:
            view.steps = rows.steps(db, "job_id = ?", (view.job.id,))
            view.dependency = dependency.shown(db, view.job)
        estimate_starts(views, db)
    paragraphs = [job_paragraph(view, call.details) for view in views]
    if not paragraphs:
        if known and meant is not None and meant.tasks:
            print(f"Job {meant.job_id}_{min(meant.tasks)} not found")
            return 1
        if word:
            return complain(f"slurm_load_jobs error: {UNKNOWN_JOB}")
        print("No jobs in the system")
    _say(paragraphs, call)
    return 0


def meant_jobs(jobs: list[Job], meant: JobWord | None) -> list[Job]:
    """In Slurm's order: of an array first the row with its number, then from the newest on."""
    if meant is None:
        return jobs
    chosen = [job_words.narrowed(job, [meant]) for job in jobs if meant.means(job)]
    return sorted(chosen, key=lambda job: (job.id != meant.job_id, -job.id))


def _node(call: ScontrolCall, word: str) -> int:
    from course_lib.box.formats.node_view import views
    from course_lib.box.formats.scontrol_node import node_paragraph

    upkeep.try_to_bring_up_to_date()
    box = settings.load()
    with rows.snapshot() as db:
        known = {view.name: view for view in views(db, box)}
    names = _expanded(word) if word else list(known)
    missing = [name for name in names if name not in known]
    shown = [known[name] for name in names if name in known]
    _say([node_paragraph(view, call.details) for view in shown], call)
    for name in missing:
        print(f"Node {name} not found")
    return 1 if missing else 0


def _partition(call: ScontrolCall, word: str) -> int:
    from course_lib.box.formats.scontrol_node import partition_paragraph

    box = settings.load()
    if word and word not in box.partition_names:
        print(f"Partition {word} not found")
        return 1
    names = [word] if word else box.partition_names
    _say([partition_paragraph(name, box) for name in names], call)
    return 0


def _step(call: ScontrolCall, word: str) -> int:
    from course_lib.box.formats.job_view import JobView
    from course_lib.box.formats.scontrol_job import step_paragraph

    job_text, _, step_text = word.partition(".")
    meant = job_words.read(job_text)
    if word and meant is None:
        return complain("slurm_get_job_steps error: Invalid job id specified")
    upkeep.try_to_bring_up_to_date()
    with rows.snapshot() as db:
        jobs = {job.id: job for job in rows.active_jobs(db) if not meant or meant.means(job)}
        steps = [s for s in rows.steps(db, "end_s = 0") if s.job_id in jobs]
        parts = {job_id: rows.allocations(db, job_id) for job_id in jobs}
    steps = [s for s in steps if step_text in ("", s.step)]
    if not steps:
        if not word:
            print("No job steps in the system")
            return 0
        if not jobs:
            return complain("slurm_get_job_steps error: Invalid job id specified")
        print(f"Job step {word} not found")
        return 1
    _say(
        [step_paragraph(step, JobView(jobs[step.job_id], parts[step.job_id])) for step in steps],
        call,
    )
    return 0


def _expanded(word: str) -> list[str]:
    try:
        return hostlist.expand(word)
    except hostlist.HostListError as error:
        if len(error.args) > 1:
            print(
                f"scontrol: error: _parse_single_range: Invalid range: `{error.args[1]}'",
                file=sys.stderr,
            )
        print(f"Invalid hostlist: {word}", file=sys.stderr)
        raise Failure(code=0) from None


def _hostnames(_: ScontrolCall, word: str) -> int:
    text = word or os.environ.get("SLURM_NODELIST", "")
    if not text:
        print("scontrol: error: host list is empty", file=sys.stderr)
        return 0
    print("".join(f"{name}\n" for name in _expanded(text)), end="")
    return 0


def _hostlist(compress: Callable[[list[str]], str]) -> Callable[[ScontrolCall, str], int]:
    def put(_: ScontrolCall, word: str) -> int:
        if not word:
            return complain("invalid encode argument")
        if word.startswith("/"):
            try:
                with open(word, encoding="utf-8") as file:
                    word = ",".join(file.read().split())
            except OSError as error:
                return complain(f"scontrol: error: Couldn't open hosts file: {error.strerror}")
        print(compress(_expanded(word)))
        return 0

    return put


def _config(_: ScontrolCall, __: str) -> int:
    from course_lib.box.formats import scontrol_config

    print(scontrol_config.text(settings.load()))
    return 0


def _constant(text: str) -> Callable[[ScontrolCall, str], int]:
    def put(_: ScontrolCall, __: str) -> int:
        print(text)
        return 0

    return put


def _nothing(_: ScontrolCall, __: str) -> int:
    return 0


def _no_topology(_: ScontrolCall, __: str) -> int:
    print("scontrol: error: No topology information available", file=sys.stderr)
    return 0


def _aliases(_: ScontrolCall, word: str) -> int:
    if word:
        print(word)
    return 0


ENTITIES: dict[str, Callable[[ScontrolCall, str], int]] = {
    "job": _job,
    "jobid": _job,
    "jobs": _job,
    "node": _node,
    "nodes": _node,
    "partition": _partition,
    "partitions": _partition,
    "step": _step,
    "steps": _step,
    "hostnames": _hostnames,
    "hostlist": _hostlist(hostlist.compress),
    "hostlistsorted": _hostlist(lambda names: hostlist.compress(sorted(names, key=natural))),
    "config": _config,
    "aliases": _aliases,
    "daemons": _constant("slurmctld "),
    "topology": _no_topology,
    **dict.fromkeys(("bbstat", "burstbuffer", "dwstat", "federation"), _nothing),
    "frontend": _constant("No nodes in the system"),
    "licenses": _constant("No licenses configured in Slurm."),
    "reservation": _constant("No reservations in the system"),
    "reservations": _constant("No reservations in the system"),
}
