"""scontrol update: how much a job may use, and until when."""

from __future__ import annotations

import sys
import time

from course_lib.box import settings
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.queue.records import PENDING, RUNNING, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Fields = dict[str, object]
NO_LONGER = "Job is no longer pending execution"


def whole(value: str, name: str) -> int:
    if not (value.isascii() and value.isdigit()):
        print(f"scontrol: error: Invalid {name} value: {value}", file=sys.stderr)
        raise Failure()
    return int(value)


def count(field: str, name: str) -> Callable[[Job, str, Fields], str]:
    """Of a job that waits."""

    def put(job: Job, value: str, fields: Fields) -> str:
        number = whole(value, name)
        if job.state != PENDING:
            return NO_LONGER
        fields[field] = number
        return ""

    return put


def memory(field: str, name: str) -> Callable[[Job, str, Fields], str]:
    """In MiB, without a unit, as Slurm wants it; per node, CPU or GPU, of which one counts."""

    def put(job: Job, value: str, fields: Fields) -> str:
        mebibytes = whole(value, name)
        if job.state != PENDING:
            return NO_LONGER
        fields |= {"memory": "", "memory_per_cpu": "", "memory_per_gpu": "", field: str(mebibytes)}
        return ""

    return put


def cpus(job: Job, value: str, fields: Fields) -> str:
    """CPUs follow from tasks: a number is taken if it is what tasks and CPUs per task come to."""
    asked = whole(value, "NumCPUs")
    if job.state != PENDING:
        return NO_LONGER
    tasks = int(str(fields.get("tasks", job.tasks)))
    per_task = max(int(str(fields.get("cpus_per_task", job.cpus_per_task))), 1)
    if asked != tasks * per_task:
        raise Unsupported(
            f"scontrol update NumCPUs={asked} of a job with {tasks} tasks of {per_task} CPUs",
            "Change NumTasks or CPUsPerTask.",
        )
    return ""


def end_time(job: Job, value: str, fields: Fields) -> str:
    from course_lib.box.commands.shared import dates

    try:
        end_s = dates.parse(value)
    except dates.TimeError as error:
        place = error.args[1] if len(error.args) > 1 else 0
        print(f"Invalid time specification (pos={place}): {value}", file=sys.stderr)
        return ""
    if job.state != RUNNING:
        return "Job is not running"
    if end_s <= time.time():
        return "Invalid time limit specification"
    fields["time_limit_min"] = int(-(-(end_s - job.start_s) // 60))
    return ""


def time_min(_: Job, value: str, fields: Fields) -> str:
    try:
        fields["time_least_min"] = settings.minutes(value) or 0
    except settings.SettingsError:
        print("scontrol: error: Invalid TimeMin value", file=sys.stderr)
        raise Failure() from None
    return ""


def oversubscribe(job: Job, value: str, fields: Fields) -> str:
    if value.lower() not in ("yes", "no", "0", "1"):
        print(f"scontrol: error: Invalid OverSubscribe value: {value}", file=sys.stderr)
        raise Failure()
    if job.state != PENDING:
        return NO_LONGER
    fields["oversubscribe"] = int(value.lower() in ("yes", "1"))
    return ""


def no_effect(job: Job, _: str, __: Fields) -> str:
    """What the box accepts at submission too, and does nothing with."""
    return "" if job.state == PENDING else NO_LONGER


def refused(name: str, instead: str) -> Callable[[Job, str, Fields], str]:
    def put(_: Job, __: str, ___: Fields) -> str:
        raise Unsupported(f"scontrol update {name}", instead)

    return put


CHANGES: dict[str, Callable[[Job, str, Fields], str]] = {
    "admincomment": refused("AdminComment", "Use Comment."),
    "burstbuffer": refused("BurstBuffer", "There is one disk."),
    "contiguous": no_effect,
    "corespec": refused("CoreSpec", "A job has all CPUs that it asks for."),
    "cpuspertask": count("cpus_per_task", "CPUsPerTask"),
    "deadline": refused("Deadline", "Use TimeLimit."),
    "delayboot": no_effect,
    "endtime": end_time,
    "mincpusnode": count("cpus_min", "MinCPUsNode"),
    "minmemorycpu": memory("memory_per_cpu", "MinMemoryCPU"),
    "minmemorynode": memory("memory", "MinMemoryNode"),
    "mintmpdisknode": refused("MinTmpDiskNode", "`df /tmp` shows what is free."),
    "numcpus": cpus,
    "oversubscribe": oversubscribe,
    "reqcores": refused("ReqCores", "Use CPUsPerTask."),
    "resetaccruetime": refused("ResetAccrueTime", "A job's turn does not depend on its age."),
    "shared": oversubscribe,
    "switches": no_effect,
    "threadspec": refused("ThreadSpec", "A job has all CPUs that it asks for."),
    "timemin": time_min,
}
