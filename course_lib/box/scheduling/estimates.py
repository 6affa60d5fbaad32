"""When waiting jobs will begin at the latest, as Slurm's sched/builtin reckons it.

Every job is taken to need its whole time limit, and jobs that could share nodes are told one after
the other; so this is a bound, not a promise.
"""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.queue import rows
from course_lib.box.queue.records import Job
from course_lib.box.scheduling.job_placement import FreeNode, empty_nodes, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

    from course_lib.box.queue.records import Allocation

WAITS_IN_ORDER = (
    "state = 'PENDING' AND hold = '' AND begin_s <= ? AND reason IN ('Resources', 'Priority')"
    " ORDER BY priority - nice DESC, id"
)
YEAR_S = 365 * 86400.0
"""What a job without a time limit is taken to need."""
MOST_JOBS = 100
"""Slurm too looks only so far down its queue."""


def starts(db: Connection, box: settings.Settings) -> dict[int, float]:
    """Moment by job number; jobs of which nothing can be said are absent."""
    now_s = time.time()
    moments = _moments(db, box, now_s)
    found: dict[int, float] = {}
    taken: set[str] = set()
    last_end_s = 0.0
    for job in rows.each_job(db, WAITS_IN_ORDER, (now_s,)):
        if len(found) == MOST_JOBS:
            break
        start = _first_fit(job, moments)
        if start is None:
            continue
        start_s, names = start
        if taken & names and start_s <= last_end_s:
            start_s = last_end_s
        taken |= names
        last_end_s = start_s + _limit_s(job)
        found[job.id] = start_s
    return found


def _limit_s(job: Job) -> float:
    return job.time_limit_min * 60.0 if job.time_limit_min >= 0 else YEAR_S


def _moments(
    db: Connection, box: settings.Settings, now_s: float
) -> list[tuple[float, list[FreeNode]]]:
    """Now, and the end of each running job, with what is free then."""
    running = sorted(rows.jobs(db, rows.HOLDING_NODES), key=lambda job: job.start_s + _limit_s(job))
    parts = {job.id: rows.allocations(db, job.id) for job in running}
    found = [(now_s, _free(box, running, parts))]
    for ended, job in enumerate(running, 1):
        end_s = max(job.start_s + _limit_s(job), now_s)
        found.append((end_s, _free(box, running[ended:], parts)))
    return found


def _free(
    box: settings.Settings, running: list[Job], parts: dict[int, list[Allocation]]
) -> list[FreeNode]:
    nodes = empty_nodes(box)
    named = {node.name: node for node in nodes}
    for job in running:
        for part in parts[job.id]:
            if part.node in named:
                named[part.node].take(part, bool(job.exclusive))
    return nodes


def _first_fit(
    job: Job, moments: list[tuple[float, list[FreeNode]]]
) -> tuple[float, set[str]] | None:
    for moment_s, nodes in moments:
        if parts := place(job, nodes):
            return moment_s, {part.node for part in parts}
    return None
