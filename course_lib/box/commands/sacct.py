"""The sacct command: show ended and running jobs and their steps."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from course_lib.box import settings
from course_lib.box.commands import dates, job_filter, listing
from course_lib.box.commands.command_line import Failure, Syntax, listed
from course_lib.box.commands.job_view import JobView, code_and_signal, units
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import store
from course_lib.box.queue.records import (
    CANCELLED,
    FAILED,
    PENDING,
    RUNNING,
    TIMEOUT,
    Allocation,
    Job,
    StepRecord,
)
from course_lib.box.settings import Settings


class AccountingLine:
    """One line of sacct, for a job or one of its steps."""

    def __init__(
        self, view: JobView, step: StepRecord | None, steps: list[StepRecord], box: Settings
    ) -> None:
        self.view = view
        self.job = view.job
        self.step = step
        self.steps = steps
        self.box = box

    @property
    def start_s(self) -> float:
        return self.step.start_s if self.step else self.job.start_s

    @property
    def end_s(self) -> float:
        return self.step.end_s if self.step else self.job.end_s

    @property
    def elapsed_s(self) -> int:
        if not self.start_s:
            return 0
        return int(max((self.end_s or self.view.now_s) - self.start_s, 0))

    @property
    def cpus(self) -> int:
        return self.step.cpus if self.step else self.view.cpus

    @property
    def node_count(self) -> int:
        return self.step.node_count if self.step else self.view.node_count

    @property
    def state(self) -> str:
        if self.step:
            return self._step_state(self.step)
        if self.job.state == CANCELLED and self.job.cancelled_by >= 0:
            return f"CANCELLED by {self.job.cancelled_by}"
        return self.job.state

    @staticmethod
    def _step_state(step: StepRecord) -> str:
        if step.cancelled_by >= 0 and step.end_s:
            return f"CANCELLED by {step.cancelled_by}"
        return CANCELLED if step.state == FAILED and step.exit_signal else step.state

    @property
    def cpu_s(self) -> float:
        return self.step.cpu_s if self.step else sum(step.cpu_s for step in self.steps)


def of_job(value: Callable[[AccountingLine], str]) -> Callable[[AccountingLine], str]:
    return lambda line: "" if line.step else value(line)


def of_step(value: Callable[[StepRecord], str]) -> Callable[[AccountingLine], str]:
    return lambda line: value(line.step) if line.step else ""


def measured(value: Callable[[StepRecord], str]) -> Callable[[AccountingLine], str]:
    """Show a value only for steps that srun started, as Slurm does."""
    return of_step(lambda step: "" if step.step == "batch" else value(step))


def exit_code(line: AccountingLine) -> str:
    """Return code:signal; 0:0 for a cancelled or timed-out job, recorded before its script ends."""
    if not line.step and line.job.state in (CANCELLED, TIMEOUT):
        return "0:0"
    return "{}:{}".format(*code_and_signal(line.step or line.job))


def cpu_time(seconds: float) -> str:
    """Format CPU time: 00:00.014 below an hour, with hours above, 00:00:00 for zero."""
    if seconds <= 0:
        return "00:00:00"
    days, hours, minutes, secs = listing.parts(int(seconds))
    if days or hours:
        return listing.full(seconds)
    return f"{minutes:02}:{secs:02}.{int(seconds * 1000) % 1000:03}"


def numbered(job: str, line: AccountingLine) -> str:
    return f"{job}.{line.step.step}" if line.step else job


def alloc_tres(line: AccountingLine) -> str:
    step, view = line.step, line.view
    if step:
        device = f",gres/gpu={step.devices}" if step.devices else ""
        return f"cpu={step.cpus}{device},mem=0,node={step.node_count}"
    if not view.parts:
        return ""
    device = f",gres/gpu={view.devices}" if view.devices else ""
    return f"billing={view.cpus},cpu={view.cpus}{device},node={view.node_count}"


def requested_memory(line: AccountingLine) -> str:
    job, view = line.job, line.view
    if job.memory_per_cpu:
        return units(int(job.memory_per_cpu) * view.cpus)
    return units((int(job.memory or 0) or line.box.memory_per_node_mib) * view.node_count)


def kib(value: int) -> str:
    return f"{value}K" if value else "0"


# Column width (negative: left-aligned; 0: as wide as needed) and content.
FIELDS: dict[str, tuple[int, Callable[[AccountingLine], str]]] = {
    "Account": (10, lambda x: x.job.account),
    "AllocCPUS": (10, lambda x: str(x.cpus)),
    "AllocTRES": (10, alloc_tres),
    "CPUTime": (10, lambda x: listing.full(x.elapsed_s * x.cpus)),
    "Elapsed": (10, lambda x: listing.full(x.elapsed_s)),
    "ElapsedRaw": (10, lambda x: str(x.elapsed_s)),
    "End": (19, lambda x: listing.stamp(x.end_s, "Unknown")),
    "ExitCode": (8, exit_code),
    "JobID": (-12, lambda x: numbered(x.view.shown_id, x)),
    "JobIDRaw": (-12, lambda x: numbered(str(x.job.id), x)),
    "JobName": (10, lambda x: x.step.name if x.step else x.job.name),
    "MaxRSS": (10, measured(lambda s: kib(s.max_rss_kib))),
    "NCPUS": (10, lambda x: str(x.cpus)),
    "NNodes": (8, lambda x: str(x.node_count)),
    "NodeList": (15, lambda x: x.step.nodes if x.step else x.view.nodes or "None assigned"),
    "NTasks": (8, of_step(lambda s: str(s.tasks))),
    "Partition": (10, of_job(lambda x: x.job.partition)),
    "Reason": (22, of_job(lambda x: x.job.reason if not x.job.start_s else "None")),
    "ReqCPUS": (8, lambda x: str(x.cpus)),
    "ReqMem": (10, of_job(requested_memory)),
    "Start": (19, lambda x: listing.stamp(x.start_s, "Unknown")),
    "State": (10, lambda x: x.state),
    "Submit": (19, lambda x: listing.stamp(x.start_s if x.step else x.job.submit_s, "Unknown")),
    "Timelimit": (10, of_job(lambda x: listing.limit_full(x.job.time_limit_min))),
    "TotalCPU": (10, lambda x: cpu_time(x.cpu_s)),
    "User": (9, of_job(lambda x: x.job.user)),
}
WIDTH = {name: width for name, (width, _) in FIELDS.items()}


USAGE = "sacct [options]"
SYNTAX = Syntax(
    "sacct",
    "accounts,A=! allocations,X allclusters,L! allusers,a batch-script,B! brief,b"
    " clusters|cluster,M=! completion,c! constraints,C=! delimiter= duplicates,D! endtime,E="
    " env-vars! federation! file,f=! flags,F=! format|fields,o= gid|group=! uid=! helpformat,e!"
    " help,h jobs,j= json! local! long,l! ncpus,I=! name= nnodes,i=! nodelist,N=! noconvert!"
    " noheader,n parsable,p parsable2,P partition,r=! qos,q=! reason,R=! starttime,S= state,s="
    " timelimit-max,K=! timelimit-min,k=! truncate,T! units=! usage,U user,u= use-local-uid!"
    " verbose,v version,V wckeys,W=! whole-hetjob?! associations,x=! yaml!",
)
DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"


def run(arguments: list[str]) -> int:
    pairs, rest = SYNTAX.parse(arguments)
    if rest:
        raise Failure("Unknown arguments:", *[f" {word}" for word in rest])
    options = {name: value or "" for name, value in pairs}
    fields = _fields([value or "" for name, value in pairs if name == "format"], options)
    options["jobs"] = ",".join(value or "" for name, value in pairs if name == "jobs")
    selection = AccountingSelection(options)
    upkeep.try_to_bring_up_to_date()
    rows = [[FIELDS[name][1](line) for name, _ in fields] for line in selection.lines()]
    listing.print_accounting(fields, rows, options, "noheader" not in options)
    return 0


def _fields(formats: list[str], options: dict[str, str]) -> list[tuple[str, int]]:
    text = ",".join(formats) or os.environ.get("SACCT_FORMAT", "")
    if not text or ("brief" in options and not formats):
        text = BRIEF if "brief" in options else DEFAULT
    return listing.accounting_fields("sacct", text, WIDTH)


class AccountingSelection:
    """The selected jobs. The constructor checks the options; `lines` reads the state file."""

    def __init__(self, options: dict[str, str]) -> None:
        self.ids = ids(options.get("jobs", ""))
        self.users = listed(options, "user")
        if self.users == set():  # an empty variable names nobody, and Slurm says nothing
            raise Failure()
        for user in job_filter.unknown_users(self.users):
            raise Failure(f"Invalid user id: {user}")
        self.states = _states(options.get("state", ""))
        self.start_s, self.end_s = _window(options, bool(self.ids), bool(self.states))
        self.names = listed(options, "name")
        self.everyone = "allusers" in options or os.getuid() == 0 or bool(self.users)
        self.with_steps = "allocations" not in options

    def passes(self, job: Job) -> bool:
        return (
            (not self.ids or bool(self._named(job)))
            and (self.users is None or bool({job.user, str(job.uid)} & self.users))
            and (self.everyone or job.uid == os.getuid())
            and (not self.states or self._was_in_a_state(job))
            and (self.names is None or job.name in self.names)
            and (job.end_s == 0 or job.end_s >= self.start_s)
            and min(job.submit_s, time.time()) <= self.end_s  # the clock may have been set back
        )

    def _was_in_a_state(self, job: Job) -> bool:
        """Return True if the job ended in a selected state, or ran or waited, in the window."""
        start_s, end_s = self.start_s, self.end_s
        ran = 0 < job.start_s < end_s and (not job.end_s or job.end_s > start_s)
        left_s = job.start_s or job.end_s
        waits = job.submit_s < end_s and (not left_s or left_s > start_s)
        return (
            (job.state in self.states and start_s <= job.end_s <= end_s)
            or (ran and RUNNING in self.states)
            or (waits and PENDING in self.states)
        )

    def _named(self, job: Job) -> list[NamedJob]:
        """Return the names of a job. A pending array task shares a record and has no own line."""
        waits = bool(job.array_waiting)
        return [(w, step) for w, step in self.ids if w.means(job) and not (w.tasks and waits)]

    def lines(self) -> list[AccountingLine]:
        parts: dict[int, list[Allocation]] = {}
        steps: dict[int, list[StepRecord]] = {}
        with store.snapshot() as db:
            jobs = [job for job in store.jobs(db, columns=store.ALL_COLUMNS) if self.passes(job)]
            for job_id, part in store.all_allocations(db):
                parts.setdefault(job_id, []).append(part)
            for step in store.steps(db):
                steps.setdefault(step.job_id, []).append(step)
        box, lines = settings.load(), []
        views = [JobView(job, parts.get(job.id, [])) for job in jobs]
        for view in sorted(views, key=lambda view: view.in_order):
            lines += self._job_lines(view, steps.get(view.job.id, []), box)
        return lines

    def _job_lines(
        self, view: JobView, steps: list[StepRecord], box: settings.Settings
    ) -> list[AccountingLine]:
        own = sorted(steps, key=lambda step: (step.step != "batch", step.start_s))
        asked = {step for _, step in self._named(view.job)} - {""}
        whole = not asked or not self.with_steps
        lines = [AccountingLine(view, None, own, box)] if whole else []
        if self.with_steps:
            shown = [step for step in own if not asked or step.step in asked]
            lines += [AccountingLine(view, step, own, box) for step in shown]
        return lines


# A job or array task named by -j, and its step, or "".
NamedJob = tuple[job_filter.JobWord, str]


def ids(text: str) -> list[NamedJob]:
    found = []
    for word in job_filter.split_words(text):
        job, _, step = word.partition(".")
        meant = job_filter.read_word(job)
        if meant is None:
            number, array, _ = job.partition("_")
            what = f" array element specified: {number}" if array else f"/step specified: {word}"
            print(f"sacct: fatal: Bad job{what}", file=sys.stderr)
            raise Failure()
        found.append((meant, step))
    return found


def _states(text: str) -> set[str]:
    try:
        return job_filter.states(text) or set()
    except Failure:
        print(f"sacct: fatal: unrecognized job state value '{text}'", file=sys.stderr)
        raise Failure(code=1) from None


def _window(options: dict[str, str], by_id: bool, by_state: bool) -> tuple[float, float]:
    """Return the time window. If states are given without both ends, the window is one moment."""
    start, end = options.get("starttime"), options.get("endtime")
    end_s = dates.parse_or_fail(end, past=True) if end else time.time() + 1
    if start:
        start_s = dates.parse_or_fail(start, past=True)
        end_s = start_s if by_state and not end else end_s
    else:
        start_s = 0.0 if by_id else end_s if by_state else dates.parse("today")
    if start_s > end_s:
        first, last = listing.stamp(start_s), listing.stamp(end_s)
        raise Failure(f"Start time ({first}) requested is after end time ({last}).")
    return start_s, end_s
