"""Which jobs and steps sacct is about."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.shared import dates, job_filter, job_words
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.sacct_fields import AccountingLine
from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import Allocation, Job, StepRecord


class AccountingSelection:
    """Checks the options when it is made, reads the state file for `lines`."""

    def __init__(self, options: dict[str, str]) -> None:
        words = job_filter.words
        self.ids = ids(options.get("jobs", ""))
        self.users = words(options.get("user", options.get("uid", "")))
        for user in job_filter.unknown_users(self.users):
            raise Failure(f"Invalid user id: {user}")
        self.states = _states(options.get("state", ""))
        self.start_s, self.end_s = _window(options, bool(self.ids))
        self.names = words(options.get("name", ""))
        self.accounts = words(options.get("accounts", ""))
        self.partitions = words(options.get("partition", ""))
        self.nodes = set(hostlist.expand(options.get("nodelist", "")))
        self.everyone = "allusers" in options or os.getuid() == 0 or bool(self.users)
        self.with_steps = "allocations" not in options

    def passes(self, job: Job) -> bool:
        return (
            (not self.ids or bool(self._named(job)))
            and (not self.users or bool({job.user, str(job.uid)} & self.users))
            and (self.everyone or job.uid == os.getuid())
            and (not self.states or job.state in self.states)
            and (not self.names or job.name in self.names)
            and (not self.accounts or job.account in self.accounts)
            and (not self.partitions or job.partition in self.partitions)
            and (job.end_s == 0 or job.end_s >= self.start_s)
            and job.submit_s <= self.end_s
        )

    def _named(self, job: Job) -> list[NamedJob]:
        return [named for named in self.ids if named.word.means(job) and not named.is_waiting(job)]

    def lines(self) -> list[AccountingLine]:
        parts: dict[int, list[Allocation]] = {}
        steps: dict[int, list[StepRecord]] = {}
        with rows.snapshot() as db:
            jobs = [job for job in rows.jobs(db, columns=rows.ALL_COLUMNS) if self.passes(job)]
            for job_id, part in rows.all_allocations(db):
                parts.setdefault(job_id, []).append(part)
            for step in rows.steps(db):
                steps.setdefault(step.job_id, []).append(step)
        box, lines = settings.load(), []
        views = [JobView(job, parts.get(job.id, [])) for job in jobs]
        for view in sorted(views, key=lambda view: view.in_order):
            if not self.nodes or self.nodes & {part.node for part in view.parts}:
                lines += self._of_job(view, steps.get(view.job.id, []), box)
        return lines

    def _of_job(
        self, view: JobView, steps: list[StepRecord], box: settings.Settings
    ) -> list[AccountingLine]:
        own = sorted(steps, key=lambda step: (step.step != "batch", step.start_s))
        asked = {named.step for named in self._named(view.job)} - {""}
        lines = [] if asked else [AccountingLine(view, None, own, box)]
        if self.with_steps:
            shown = [step for step in own if not asked or step.step in asked]
            lines += [AccountingLine(view, step, own, box) for step in shown]
        return lines


class NamedJob:
    """A job, a task of an array, or a step, of -j."""

    def __init__(self, word: job_words.JobWord, step: str) -> None:
        self.word = word
        self.step = step

    def is_waiting(self, job: Job) -> bool:
        """A task that waits with others has no line of its own."""
        return self.word.tasks is not None and bool(job.array_waiting)


def ids(text: str) -> list[NamedJob]:
    found = []
    for word in text.split(","):
        if not word:
            continue
        job, _, step = word.partition(".")
        number, array, task = job.partition("_")
        if not arrays.is_number(number) or (array and not arrays.is_number(task)):
            what = f"array element specified: {number}" if array else f"/step specified: {word}"
            print(f"sacct: fatal: Bad job{' ' if array else ''}{what}", file=sys.stderr)
            raise Failure(code=1)
        meant = job_words.JobWord(int(number), frozenset([int(task)]) if array else None)
        found.append(NamedJob(meant, step))
    return found


def _states(text: str) -> set[str]:
    try:
        return job_filter.states(text)
    except Failure:
        print(f"sacct: fatal: unrecognized job state value '{text}'", file=sys.stderr)
        raise Failure(code=1) from None


def _window(options: dict[str, str], by_id: bool) -> tuple[float, float]:
    midnight_s = dates.parse("today")
    start_s = 0.0 if by_id else midnight_s
    try:
        if options.get("starttime"):
            start_s = dates.parse(options["starttime"], past=True)
        end = options.get("endtime")
        return start_s, dates.parse(end, past=True) if end else time.time() + 1
    except dates.TimeError as error:
        print(f"Invalid time specification (pos=0): {error}", file=sys.stderr)
        raise Failure(code=1) from None
