"""Which jobs and steps sacct is about."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.shared import dates, job_filter, job_words
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.sacct_fields import AccountingLine
from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import PENDING, RUNNING, Allocation, Job, StepRecord


class AccountingSelection:
    """Checks the options when it is made, reads the state file for `lines`."""

    def __init__(self, options: dict[str, str]) -> None:
        words = job_filter.words
        self.ids = ids(options.get("jobs", ""))
        self.users = words(options.get("user", options.get("uid", "")))
        for user in job_filter.unknown_users(self.users):
            raise Failure(f"Invalid user id: {user}")
        self.states = _states(options.get("state", ""))
        self.start_s, self.end_s = _window(options, bool(self.ids), bool(self.states))
        self.names = words(options.get("name", ""))
        self.accounts = words(options.get("accounts", ""))
        self.partitions = words(options.get("partition", ""))
        self.nodes = set(hostlist.expand(options.get("nodelist", "")))
        self.everyone = "allusers" in options or os.getuid() == 0 or bool(self.users)
        self.with_steps = "allocations" not in options
        self.with_earlier_runs = "duplicates" in options

    def passes(self, job: Job) -> bool:
        return (
            (not self.ids or bool(self._named(job)))
            and (not self.users or bool({job.user, str(job.uid)} & self.users))
            and (self.everyone or job.uid == os.getuid())
            and (not self.states or self._was_in_a_state(job))
            and (not self.names or job.name in self.names)
            and (not self.accounts or job.account in self.accounts)
            and (not self.partitions or job.partition in self.partitions)
            and (job.end_s == 0 or job.end_s >= self.start_s)
            and job.submit_s <= self.end_s
        )

    def _was_in_a_state(self, job: Job) -> bool:
        """Ended so in the window, or ran or waited at a moment of it."""
        start_s, end_s = self.start_s, self.end_s
        ran = 0 < job.start_s < end_s and (not job.end_s or job.end_s > start_s)
        left_s = job.start_s or job.end_s
        waits = 0 < job.eligible_s < end_s and (not left_s or left_s > start_s)
        return (
            (job.state in self.states and start_s <= job.end_s <= end_s)
            or (ran and RUNNING in self.states)
            or (waits and PENDING in self.states)
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
            if self.with_earlier_runs and view.job.earlier_runs:
                lines += self._of_earlier_runs(view.job, box)
            if not self.nodes or self.nodes & {part.node for part in view.parts}:
                lines += self._of_job(view, steps.get(view.job.id, []), box)
        return lines

    def _of_earlier_runs(self, job: Job, box: settings.Settings) -> list[AccountingLine]:
        from course_lib.box.queue import earlier_runs

        lines = []
        for earlier, parts, steps in earlier_runs.read(job):
            if not self.nodes or self.nodes & {part.node for part in parts}:
                lines += self._of_job(JobView(earlier, parts), steps, box)
        return lines

    def _of_job(
        self, view: JobView, steps: list[StepRecord], box: settings.Settings
    ) -> list[AccountingLine]:
        own = sorted(steps, key=lambda step: (step.step != "batch", step.start_s))
        asked = {named.step for named in self._named(view.job)} - {""}
        whole = not asked or not self.with_steps
        lines = [AccountingLine(view, None, own, box)] if whole else []
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


def _window(options: dict[str, str], by_id: bool, by_state: bool) -> tuple[float, float]:
    """Who asks for states, and names one end of the window or none, asks about that moment."""
    start, end = options.get("starttime"), options.get("endtime")
    end_s = _moment(end) if end else time.time() + 1
    if start:
        start_s = _moment(start)
        end_s = start_s if by_state and not end else end_s
    else:
        start_s = 0.0 if by_id else end_s if by_state else dates.parse("today")
    if start_s > end_s:
        first, last = times.stamp(start_s), times.stamp(end_s)
        raise Failure(f"Start time ({first}) requested is after end time ({last}).")
    return start_s, end_s


def _moment(text: str) -> float:
    try:
        return dates.parse(text, past=True)
    except dates.TimeError as error:
        place = error.args[1] if len(error.args) > 1 else 0
        print(f"Invalid time specification (pos={place}): {text}", file=sys.stderr)
        raise Failure(code=1) from None
