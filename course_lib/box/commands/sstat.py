"""The sstat command: show the current resource usage of a job's running steps."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

from course_lib.box import settings
from course_lib.box.commands import job_filter, listing
from course_lib.box.commands.command_line import Failure, Syntax
from course_lib.box.commands.job_view import JobView
from course_lib.box.commands.sacct import kib
from course_lib.box.dispatch import upkeep
from course_lib.box.processes import finding
from course_lib.box.queue import arrays, store
from course_lib.box.queue.records import FINAL_STATES, StepRecord

USAGE = "sstat [options] -j <job(.step)>"
SYNTAX = Syntax(
    "sstat",
    "allsteps,a helpformat,e! format,o= fields=! help,h info,i! jobs,j= noconvert! noheader,n"
    " parsable,p parsable2,P pidformat! usage verbose,v version,V json! yaml!",
)

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class TaskUsage:
    """Resource usage of all processes of one task."""

    def __init__(self, task: int, node: str) -> None:
        self.task = task
        self.node = node
        self.rss_kib = 0
        self.cpu_s = 0.0

    def add(self, pid: int) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = finding.stat(pid)
            self.cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            self.rss_kib += int(fields[21]) * PAGE_BYTES // 1024


def of_job(job_id: int) -> dict[str, list[TaskUsage]]:
    """Return the tasks of each step, in order. The processes' initial variables identify them."""
    found: dict[str, dict[int, TaskUsage]] = {}
    for pid in finding.marked(settings.marker(job_id, settings.state_home())):
        items = (os.fsdecode(item).partition("=") for item in finding.environment(pid))
        variables = {name: text for name, _, text in items}
        step = variables.get("SLURM_STEP_ID", "batch")
        number = int(variables.get("SLURM_PROCID", "0") or 0)
        tasks = found.setdefault(step, {})
        if number not in tasks:
            tasks[number] = TaskUsage(number, variables.get("SLURMD_NODENAME", ""))
        tasks[number].add(pid)
    return {step: [tasks[number] for number in sorted(tasks)] for step, tasks in found.items()}


class StepLine:
    def __init__(self, number: str, step: StepRecord, tasks: list[TaskUsage]) -> None:
        self.number = number
        self.step = step
        self.tasks = tasks

    def greatest(self, key: str) -> TaskUsage:
        own = TaskUsage(0, self.step.nodes)
        return max(self.tasks, key=lambda task: float(vars(task)[key]), default=own)

    def mean(self, key: str) -> float:
        return sum(float(vars(task)[key]) for task in self.tasks) / max(len(self.tasks), 1)


FIELDS: dict[str, tuple[int, Callable[[StepLine], str]]] = {
    "JobID": (-12, lambda x: f"{x.number}.{x.step.step}"),
    "MaxRSS": (10, lambda x: kib(x.greatest("rss_kib").rss_kib)),
    "MaxRSSNode": (10, lambda x: x.greatest("rss_kib").node),
    "MaxRSSTask": (10, lambda x: str(x.greatest("rss_kib").task)),
    "AveRSS": (10, lambda x: kib(int(x.mean("rss_kib")))),
    "AveCPU": (10, lambda x: listing.full(x.mean("cpu_s"))),
    "NTasks": (8, lambda x: str(x.step.tasks)),
    "Nodelist": (20, lambda x: x.step.nodes),
}
WIDTH = {name: width for name, (width, _) in FIELDS.items()}


def run(arguments: list[str]) -> int:
    pairs, rest = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    words = [word for text in [options.get("jobs", ""), *rest] for word in text.split(",") if word]
    if not words:
        raise Failure("You didn't give me any jobs to stat.")
    text = options.get("format") or ",".join(FIELDS)
    fields = listing.accounting_fields("sstat", text, WIDTH)
    asked = [_read(word) for word in words]
    listing.print_accounting(fields, [], options, "noheader" not in options)
    upkeep.try_to_bring_up_to_date()
    for meant, step, word in asked:
        lines = _lines(meant, step, word, "allsteps" in options)
        rows = [[FIELDS[name][1](line) for name, _ in fields] for line in lines]
        listing.print_accounting(fields, rows, options, header=False)
    return 0


def _read(word: str) -> tuple[job_filter.JobWord, str, str]:
    number, _, step = word.partition(".")
    meant = job_filter.read_word(number)
    if meant is None:
        print(f"sstat: fatal: Bad job/step specified: {word}", file=sys.stderr)
        raise Failure()
    return meant, step, word


def _lines(meant: job_filter.JobWord, step: str, word: str, every: bool) -> list[StepLine]:
    """Return the lines of a job; without -a only the newest step that is not the batch script."""
    with store.snapshot() as db:
        jobs = arrays.members(db, meant.job_id, meant.tasks)
        steps = {job.id: store.steps(db, "job_id = ? AND end_s = 0", (job.id,)) for job in jobs}
    living = [job for job in jobs if job.state not in FINAL_STATES]
    found = []
    for job in living:
        usage = of_job(job.id)
        chosen = sorted(steps[job.id], key=lambda record: record.step != "batch")
        if step:
            chosen = [record for record in chosen if record.step == step]
        elif not every:
            chosen = [record for record in chosen if record.step != "batch"][-1:]
        number = JobView(job, []).shown_id
        found += [StepLine(number, record, usage.get(record.step, [])) for record in chosen]
    if not jobs:
        print(f"sstat: error: couldn't get steps for job {word}", file=sys.stderr)
    elif not found and step:
        print(f"sstat: error: StepId={word} not found running.", file=sys.stderr)
    elif not found:
        print(f"sstat: error: No steps running for job {word}", file=sys.stderr)
    return found
