"""Selection of jobs in commands: typed numbers (`12`, `12_[3-5,7]`) and filters."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from course_lib.box import settings
from course_lib.box.commands.command_line import Failure, Unsupported, comma_list, listed
from course_lib.box.commands.job_view import COMPACT, JobView
from course_lib.box.queue import arrays, store
from course_lib.box.queue.records import PENDING, Allocation, Job
from course_lib.box.scheduling.first_come import dependency_shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class JobWord:
    """A typed job number. `tasks` is None if the whole job, or a whole array, is meant."""

    def __init__(self, job_id: int, tasks: frozenset[int] | None) -> None:
        self.job_id = job_id
        self.tasks = tasks

    def means(self, job: Job) -> bool:
        if self.tasks is None:
            return self.job_id in (job.id, job.array_job_id)
        if job.array_job_id != self.job_id:
            return False
        return job.array_task in self.tasks or bool(arrays.waiting(job, self.tasks))


def split_words(text: str) -> list[str]:
    """Split a text at commas outside brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word for word in words if word]


def read_word(word: str) -> JobWord | None:
    """Read a typed job number. Return None if the word is not a job number."""
    number, array, tasks = word.partition("_")
    if not settings.is_number(number):
        return None
    if not array or tasks == "*":
        return JobWord(int(number), None)
    if {*tasks} & {*(":%" if tasks[:1] + tasks[-1:] == "[]" else ":%-[]")}:
        return None
    try:
        listed = arrays.parse(tasks)[0] or "0"  # `12_` is task 0, as in Slurm
    except arrays.ArrayError:
        return None
    return JobWord(int(number), frozenset(arrays.numbers(listed)))


def narrowed(job: Job, words: list[JobWord]) -> Job:
    """Return the job's row with only the waiting tasks that the words name."""
    if not job.array_waiting or any(word.tasks is None and word.means(job) for word in words):
        return job
    tasks: set[int] = set()
    for word in words:
        if word.means(job) and word.tasks:
            tasks.update(arrays.waiting(job, word.tasks))
    if len(tasks) == 1:
        return arrays.changed(job, array_waiting="", array_task=tasks.pop())
    return arrays.changed(job, array_waiting=arrays.written(tasks)) if tasks else job


SHOWN_STATES = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING")
ALL_STATES = list(COMPACT)


class JobFilter:
    """A filter from the options that squeue and scancel share. None lets every job pass."""

    def __init__(self, options: dict[str, str]) -> None:
        self.ids: list[JobWord] | None = None
        self.states: set[str] | None = set(SHOWN_STATES)
        self.users = listed(options, "user")
        self.names = listed(options, "name")
        self.partitions = listed(options, "partition")
        self.sort = "P,t,-p"
        # A job of `ids` was found, whether it is shown or not.
        self.known = False

    def views(self) -> list[JobView]:
        with store.snapshot() as db:
            now_s = time.time()
            jobs = store.jobs(db, store.SHOWN, (now_s - settings.load().job_shown_s,))
            running = any(job.state != PENDING for job in jobs)
            parts = store.all_allocations(db) if running else []
            waits = {job.id: dependency_shown(db, job) for job in jobs if job.dependency}
        held: dict[int, list[Allocation]] = {}
        for job_id, part in parts:
            held.setdefault(job_id, []).append(part)
        numbers = {word.job_id for word in self.ids or ()}
        self.known = any({job.id, job.array_job_id} & numbers for job in jobs)
        if self.ids:
            jobs = [narrowed(job, self.ids) for job in jobs]
        views = [JobView(job, held.get(job.id, []), now_s) for job in jobs]
        if any(job.array_job_id for job in jobs):
            views.sort(key=lambda view: view.in_order)
        for view in views:
            view.dependency = waits.get(view.job.id, "")
        return ordered([view for view in views if self.passes(view)], self.sort)

    def passes(self, view: JobView) -> bool:
        job = view.job
        return (
            (self.ids is None or any(word.means(job) for word in self.ids))
            and (self.states is None or view.state in self.states)
            and (self.users is None or bool({job.user, str(job.uid)} & self.users))
            and (self.names is None or job.name in self.names)
            and (self.partitions is None or job.partition in self.partitions)
        )


SORT_KEYS: dict[str, Callable[[JobView], Any]] = {
    "i": lambda v: v.in_order,
    "P": lambda v: v.job.partition,
    "t": lambda v: ALL_STATES.index(v.state),
    "T": lambda v: ALL_STATES.index(v.state),
    "p": lambda v: v.priority,
    "Q": lambda v: v.priority,
    "j": lambda v: v.job.name,
    "u": lambda v: v.job.user,
    "M": lambda v: v.elapsed_s,
    "S": lambda v: v.job.start_s,
    "e": lambda v: v.end_s,
    "V": lambda v: v.job.submit_s,
}


def ordered(views: list[JobView], sort: str) -> list[JobView]:
    """Sort by the letters of squeue's -o, from the last to the first, because sorts are stable."""
    for field in reversed(sort.split(",")):
        letter = field.lstrip("+-")
        if letter in SORT_KEYS:
            views = sorted(views, key=SORT_KEYS[letter])
            if field.startswith("-"):
                views.reverse()  # this reverses equal jobs too, as Slurm does
    return views


def of_squeue(options: dict[str, str]) -> JobFilter:
    choice = JobFilter(options)
    choice.ids = ids(options["jobs"]) if "jobs" in options else None
    if "states" in options:
        choice.states = states(options["states"])
    for user in unknown_users(choice.users):  # an unknown user has no jobs
        print(f"squeue: error: Invalid user: {user}\n", file=sys.stderr)
    if "me" in options:
        choice.users = {str(os.getuid())}
    choice.sort = options.get("sort") or choice.sort
    for field in choice.sort.split(","):
        if field.lstrip("+-") not in SORT_KEYS:
            raise Unsupported(f"--sort={field}", known=SORT_KEYS)
    return choice


def unknown_users(users: set[str] | None) -> list[str]:
    """Return the names and numbers that are no users of this machine."""
    import pwd

    found = []
    for user in sorted((users or set()) - {str(os.getuid())}):  # a container may not name its user
        try:
            pwd.getpwuid(int(user)) if settings.is_number(user) else pwd.getpwnam(user)
        except (KeyError, OverflowError):
            found.append(user)
    return found


def ids(text: str) -> list[JobWord]:
    found = []
    for word in split_words(text):
        meant = read_word(word.split()[0] if word.strip() else word)  # up to a blank, like Slurm
        if meant is None:
            raise Failure(f"Invalid job id: {word}")
        found.append(meant)
    return found


def states(text: str) -> set[str] | None:
    """Read full or compact state names in any case. The result is None for `all`."""
    names = {compact: state for state, compact in COMPACT.items()}
    found = set()
    for word in comma_list(text):
        upper = word.upper()
        if upper == "ALL":
            return None
        state = upper if upper in COMPACT else names.get(upper)
        if state is None:
            listed = ",".join(ALL_STATES)
            raise Failure(
                f"Invalid job state specified: {word}", f"Valid job states include: {listed}\n"
            )
        found.add(state)
    return found
