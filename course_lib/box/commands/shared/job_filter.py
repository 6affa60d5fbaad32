"""Which jobs a command is about: the filters that squeue and scancel share."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.shared import job_words
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.shared.job_words import JobWord
from course_lib.box.formats.job_view import COMPACT, JobView
from course_lib.box.queue import rows
from course_lib.box.queue.records import PENDING, Allocation
from course_lib.box.scheduling.dependency import shown

UNSORTED = "akoqrswxyAEFKRWXYZ"
"""Letters of -o by which squeue does not sort."""
SHOWN_STATES = ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING")
STATE_NAMES = """
PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE
OUT_OF_MEMORY COMPLETING CONFIGURING RESIZING RESV_DEL_HOLD REQUEUED REQUEUE_FED REQUEUE_HOLD
REVOKED SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED
"""
ALL_STATES = STATE_NAMES.split()
ORDER = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "COMPLETING",
)


class JobFilter:
    """Made from the options that squeue and scancel share. Empty sets let everything pass."""

    def __init__(self, options: dict[str, str]) -> None:
        self.ids: list[JobWord] = []
        self.states: set[str] = set(SHOWN_STATES)
        self.users: set[str] = set()
        self.names: set[str] = set()
        self.partitions = words(options.get("partition", ""))
        self.accounts = words(options.get("account", ""))
        self.qos = words(options.get("qos", ""))
        self.licenses: set[str] = set()
        self.reservations = words(options.get("reservation", ""))
        self.nodes = set(hostlist.expand(options.get("nodelist", "")))
        self.sort = "P,t,-p"
        self.bad_sort = ""
        """Last letter of a --sort field that is none."""
        self.known = False
        """Whether a job of `ids` was found, shown or not."""

    def views(self) -> list[JobView]:
        with rows.snapshot() as db:
            where = "(state IN ('PENDING', 'RUNNING') OR completing = 1 OR end_s > ?)"
            now_s = time.time()
            jobs = rows.jobs(db, where, (now_s - settings.load().job_shown_s,))
            running = any(job.state != PENDING for job in jobs)
            parts = rows.all_allocations(db) if running else []
            waits = {job.id: shown(db, job) for job in jobs if job.dependency}
        held: dict[int, list[Allocation]] = {}
        for job_id, part in parts:
            held.setdefault(job_id, []).append(part)
        numbers = {word.job_id for word in self.ids}
        self.known = any({job.id, job.array_job_id} & numbers for job in jobs)
        if self.ids:
            jobs = [job_words.narrowed(job, self.ids) for job in jobs]
        views = [JobView(job, held.get(job.id, []), now_s) for job in jobs]
        if any(job.array_job_id for job in jobs):
            views.sort(key=lambda view: view.in_order)
        for view in views:
            view.dependency = waits.get(view.job.id, "")
        return ordered([view for view in views if self.passes(view)], self.sort)

    def passes(self, view: JobView) -> bool:
        job = view.job
        return (
            (not self.ids or any(word.means(job) for word in self.ids))
            and (not self.states or view.state in self.states)
            and (not self.users or bool({job.user, str(job.uid)} & self.users))
            and (not self.names or job.name in self.names)
            and (not self.partitions or job.partition in self.partitions)
            and (not self.accounts or job.account in self.accounts)
            and (not self.qos or job.qos in self.qos)
            and (not self.reservations or job.reservation in self.reservations)
            and not self.licenses  # which no job of the box has
            and (not self.nodes or any(part.node in self.nodes for part in view.parts))
        )


def ordered(views: list[JobView], sort: str) -> list[JobView]:
    """By the letters of squeue's -o, the last one first, as each sort keeps the one before."""
    keys = {
        "i": lambda v: v.in_order,
        "P": lambda v: v.job.partition,
        "t": lambda v: ORDER.index(v.state),
        "T": lambda v: ORDER.index(v.state),
        "p": lambda v: v.priority,
        "Q": lambda v: v.priority,
        "j": lambda v: v.job.name,
        "u": lambda v: v.job.user,
        "U": lambda v: v.job.uid,
        "M": lambda v: v.elapsed_s,
        "l": lambda v: v.job.time_limit_min,
        "D": lambda v: v.node_count,
        "C": lambda v: v.cpus,
        "S": lambda v: v.job.start_s,
        "e": lambda v: v.end_s,
        "V": lambda v: v.job.submit_s,
        "N": lambda v: v.nodes,
    }
    for field in reversed(sort.split(",")):
        falling = field.startswith("-")
        letter = field.lstrip("+-")
        if letter in keys:
            views = sorted(views, key=keys[letter])
            if falling:
                views.reverse()  # also those that are equal, as Slurm does
    return views


def of_squeue(options: dict[str, str]) -> JobFilter:
    choice = JobFilter(options)
    choice.ids = ids(options.get("jobs", ""))
    if "states" in options:
        choice.states = states(options["states"])
    choice.users = words(options.get("user", options.get("users", "")))
    for user in unknown_users(choice.users):  # who does not exist has no jobs
        print(f"squeue: error: Invalid user: {user}\n", file=sys.stderr)
    if "me" in options:
        choice.users = {str(os.getuid())}
    choice.names = words(options.get("name", options.get("names", "")))
    choice.licenses = words(options.get("licenses", ""))
    for name in sorted(choice.nodes - set(settings.load().node_names)):
        raise Failure(f"Invalid node name {name}")
    choice.sort = options.get("sort") or os.environ.get("SQUEUE_SORT") or choice.sort
    for field in choice.sort.split(","):
        letter = field.lstrip("+-")
        if len(letter) > 1 or (letter and letter in UNSORTED):
            choice.bad_sort = field[-1:]
    return choice


def unknown_users(users: set[str]) -> list[str]:
    """Names that this machine does not have; a number may be any."""
    import pwd

    found = []
    for user in users:
        try:
            if not user.isdigit():
                pwd.getpwnam(user)
        except KeyError:
            found.append(user)
    return found


def words(text: str) -> set[str]:
    return {word for word in text.split(",") if word}


def ids(text: str) -> list[JobWord]:
    found = []
    for word in job_words.split(text):
        meant = job_words.read(word.split()[0] if word.strip() else word)  # as Slurm, to the blank
        if meant is None:
            raise Failure(f"Invalid job id: {word}")
        found.append(meant)
    return found


def states(text: str) -> set[str]:
    """Full or compact names in any case; empty for `all`."""
    names = {compact: state for state, compact in COMPACT.items()}
    found = set()
    for word in words(text):
        upper = word.upper()
        if upper == "ALL":
            return set()
        state = upper if upper in COMPACT else names.get(upper)
        if state is None:
            listed = ",".join(ALL_STATES)
            raise Failure(
                f"Invalid job state specified: {word}", f"Valid job states include: {listed}\n"
            )
        found.add(state)
    return found
