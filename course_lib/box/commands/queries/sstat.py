"""sstat: what the running steps of a job use now."""

from __future__ import annotations

import sys

from course_lib.box.commands.queries.sacct import padded
from course_lib.box.commands.shared import advice, job_words
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax
from course_lib.box.dispatch import upkeep
from course_lib.box.formats import step_usage, times
from course_lib.box.formats.sacct_fields import WIDTH, kib
from course_lib.box.formats.step_usage import TaskUsage
from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import FINAL_STATES, Job, StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

USAGE = "sstat [options] -j <job(.step)>"
SYNTAX = Syntax(
    "sstat",
    "allsteps,a helpformat,e format,o= fields= help,h info,i jobs,j= noconvert noheader,n"
    " parsable,p parsable2,P pidformat usage verbose,v version,V json yaml",
)
DEFAULT = (
    "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,"
    "MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,"
    "AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,"
    "MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,"
    "AveDiskWrite,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,"
    "TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,TRESUsageOutAve,"
    "TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutMin,TRESUsageOutMinNode,"
    "TRESUsageOutMinTask,TRESUsageOutTot"
)
FREQUENCIES = ["ReqCPUFreq", "ReqCPUFreqMin", "ReqCPUFreqMax", "ReqCPUFreqGov"]
OTHERS = sorted(
    {*DEFAULT.split(","), "ConsumedEnergyRaw", "Nodelist", "Pids"} - {*FREQUENCIES}, key=str.lower
)
NAMES = [
    *(name for name in OTHERS if name < "R"),
    *FREQUENCIES,
    *(name for name in OTHERS if name > "R"),
]
"""In the order of `sstat -e`."""
WIDTHS = {**WIDTH, "Nodelist": 20, "Pids": 20, "AveDiskRead": 12, "AveDiskWrite": 12}


class StepLine:
    def __init__(self, number: str, step: StepRecord, tasks: list[TaskUsage]) -> None:
        self.number = number
        self.step = step
        self.tasks = tasks

    def most(self, value: Callable[[TaskUsage], float]) -> TaskUsage:
        return step_usage.most(self.tasks, value) or TaskUsage(0, self.step.nodes)

    def least_cpu(self) -> TaskUsage:
        return self.most(lambda task: -task.cpu_s)


def rss(task: TaskUsage) -> float:
    return task.rss_kib


def virtual(task: TaskUsage) -> float:
    return task.virtual_kib


FIELDS: dict[str, Callable[[StepLine], str]] = {
    "JobID": lambda x: f"{x.number}.{x.step.step}",
    "NTasks": lambda x: str(x.step.tasks),
    "Nodelist": lambda x: x.step.nodes,
    "Pids": lambda x: ",".join(str(pid) for task in x.tasks for pid in task.pids),
    "MaxRSS": lambda x: kib(x.most(rss).rss_kib),
    "MaxRSSNode": lambda x: x.most(rss).node,
    "MaxRSSTask": lambda x: str(x.most(rss).task),
    "AveRSS": lambda x: kib(int(step_usage.mean(x.tasks, rss))),
    "MaxVMSize": lambda x: kib(x.most(virtual).virtual_kib),
    "MaxVMSizeNode": lambda x: x.most(virtual).node,
    "MaxVMSizeTask": lambda x: str(x.most(virtual).task),
    "AveVMSize": lambda x: kib(int(step_usage.mean(x.tasks, virtual))),
    "MinCPU": lambda x: times.full(x.least_cpu().cpu_s),
    "MinCPUNode": lambda x: x.least_cpu().node,
    "MinCPUTask": lambda x: str(x.least_cpu().task),
    "AveCPU": lambda x: times.full(step_usage.mean(x.tasks, lambda task: task.cpu_s)),
}
"""A field that the box has no number for is empty."""


def run(arguments: list[str]) -> int:
    pairs, rest = SYNTAX.parse(arguments)
    options = {name: value or "" for name, value in pairs}
    for name in ("json", "yaml"):
        if name in options:
            raise Unsupported(f"--{name}", advice.of_option(name))
    if "helpformat" in options:
        for row in range(0, len(NAMES), 4):
            print(" ".join(f"{name:<19}" for name in NAMES[row : row + 4]))
        return 0
    words = [word for text in [options.get("jobs", ""), *rest] for word in text.split(",") if word]
    if not words:
        raise Failure("You didn't give me any jobs to stat.")
    default = "JobID,Nodelist,Pids" if {"info", "pidformat"} & options.keys() else DEFAULT
    fields = _fields(options.get("format") or options.get("fields") or default)
    asked = [_read(word) for word in words]
    _print(["header"] if "noheader" not in options else [], fields, options)
    upkeep.try_to_bring_up_to_date()
    for meant, step, word in asked:
        _print(_lines(meant, step, word, "allsteps" in options), fields, options)
    return 0


def _fields(text: str) -> list[tuple[str, int]]:
    known = {name.lower(): name for name in NAMES}
    found = []
    for item in text.split(","):
        asked, _, width = item.partition("%")
        near = [name for lower, name in known.items() if lower.startswith(asked.lower())]
        name = known.get(asked.lower()) or (near[0] if near else "")
        if not name or (width and not width.lstrip("-").isdigit()):
            raise Failure(f'Invalid field requested: "{asked}"')
        found.append((name, int(width) if width else WIDTHS.get(name, 10)))
    return found


def _read(word: str) -> tuple[job_words.JobWord, str, str]:
    number, _, step = word.partition(".")
    meant = job_words.read(number)
    if meant is None:
        print(f"sstat: fatal: Bad job/step specified: {word}", file=sys.stderr)
        raise Failure()
    return meant, step, word


def _lines(meant: job_words.JobWord, step: str, word: str, every: bool) -> list[StepLine]:
    """Without -a the newest step of a job, as in Slurm the batch script is not one of them."""
    with rows.snapshot() as db:
        jobs = arrays.members(db, meant.job_id, meant.tasks)
        steps = {job.id: rows.steps(db, "job_id = ? AND end_s = 0", (job.id,)) for job in jobs}
    living = [job for job in jobs if job.state not in FINAL_STATES]
    found = []
    for job in living:
        usage = step_usage.of_job(job.id)
        chosen = sorted(steps[job.id], key=lambda record: record.step != "batch")
        if step:
            chosen = [record for record in chosen if record.step == step]
        elif not every:
            chosen = [record for record in chosen if record.step != "batch"][-1:]
        number = _number(job)
        found += [StepLine(number, record, usage.get(record.step, [])) for record in chosen]
    if not jobs:
        print(f"sstat: error: couldn't get steps for job {word}", file=sys.stderr)
    elif not found and step:
        print(f"sstat: error: StepId={word} not found running.", file=sys.stderr)
    elif not found:
        print(f"sstat: error: No steps running for job {word}", file=sys.stderr)
    return found


def _number(job: Job) -> str:
    return f"{job.array_job_id}_{job.array_task}" if job.array_task >= 0 else str(job.id)


def _print(
    lines: list[StepLine] | list[str], fields: list[tuple[str, int]], options: dict[str, str]
) -> None:
    parsable, ended = {"parsable", "parsable2"} & options.keys(), "parsable" in options
    for line in lines:
        header = isinstance(line, str)
        cells = [
            name if isinstance(line, str) else FIELDS.get(name, _nothing)(line)
            for name, _ in fields
        ]
        if parsable:
            print("|".join(cells) + ("|" if ended else ""))
            continue
        pairs = list(zip(cells, fields, strict=True))
        cut = "" if header else "+"
        print("".join(padded(cell, width, cut) + " " for cell, (_, width) in pairs))
        if header:
            print("".join("-" * abs(width) + " " for _, width in fields))


def _nothing(_: StepLine) -> str:
    return ""
