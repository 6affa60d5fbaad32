"""The fields of `squeue --steps`."""

from __future__ import annotations

from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.queue import rows
from course_lib.box.queue.records import StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class StepView:
    def __init__(self, view: JobView, step: StepRecord) -> None:
        self.view = view
        self.step = step

    @property
    def tres(self) -> str:
        """What each node gives; a batch script asks for nothing of its own."""
        if not self.step.devices or self.step.step == "batch":
            return "(null)"
        return f"gres:gpu:{self.step.devices // max(self.step.node_count, 1)}"

    @property
    def per_step(self) -> str:
        return "(null)" if self.step.step == "batch" else f"cpu:{self.step.tasks}"


def views(jobs: list[JobView], only: str) -> list[StepView]:
    """The running steps of these jobs; `only` is a list like `12.0,13`."""
    wanted = {word for word in only.split(",") if word}
    by_id = {view.job.id: view for view in jobs}
    with rows.snapshot() as db:
        steps = [step for step in rows.steps(db, "end_s = 0") if step.job_id in by_id]
    found = [
        StepView(by_id[step.job_id], step)
        for step in steps
        if not wanted or _names(by_id[step.job_id], step) & wanted
    ]
    return sorted(found, key=lambda v: (v.view.in_order, v.step.step == "batch", v.step.start_s))


def _names(view: JobView, step: StepRecord) -> set[str]:
    """What may stand for a step in a list of them."""
    numbers = {str(step.job_id), view.shown_id}
    return {*numbers, *(f"{number}.{step.step}" for number in numbers)}


FIELDS: dict[str, tuple[str, Callable[[StepView], str]]] = {
    "tres-per-job": ("TRES_PER_JOB", lambda v: v.tres),
    "stepid": ("STEPID", lambda v: f"{v.view.shown_id}.{v.step.step}"),
    "stepname": ("NAME", lambda v: v.step.name),
    "timelimit": ("TIME_LIMIT", lambda v: times.limit_short(v.step.time_limit_min)),
    "username": ("USER", lambda v: v.view.job.user),
    "numtasks": ("TASKS", lambda v: str(v.step.tasks)),
    "timeused": ("TIME", lambda v: times.short(v.view.now_s - v.step.start_s)),
    "nodes": ("NODELIST", lambda v: v.step.nodes),
    "partition": ("PARTITION", lambda v: v.view.job.partition),
    "starttime": ("START_TIME", lambda v: times.stamp(v.step.start_s)),
    "userid": ("UID", lambda v: str(v.view.job.uid)),
    "stepstate": ("STATE", lambda v: v.step.state),
    "numcpus": ("CPUS", lambda v: str(v.step.cpus)),
    "tres-per-step": ("TRES_PER_STEP", lambda v: v.per_step),
    "tres-per-node": ("TRES_PER_NODE", lambda v: v.tres),
    "arrayjobid": ("ARRAY_JOB_ID", lambda v: str(v.view.job.array_job_id or v.step.job_id)),
    "arraytaskid": ("ARRAY_TASK_ID", lambda v: v.view.task_text or "N/A"),
    "cpufreq": ("CPU_FREQ", lambda v: "Unknown-Unknown:Unknown"),
    "resvport": ("RESV_PORTS", lambda v: "(null)"),
}
LETTERS = {
    "b": "tres-per-job",
    "i": "stepid",
    "j": "stepname",
    "l": "timelimit",
    "u": "username",
    "A": "numtasks",
    "M": "timeused",
    "N": "nodes",
    "P": "partition",
    "S": "starttime",
    "U": "userid",
}
