"""The fields of squeue that only -O knows."""

from __future__ import annotations

import os

from course_lib.box import settings
from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.squeue_fields import gres_of, per_node, tres
from course_lib.box.steps import filename_patterns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def pending_s(view: JobView) -> str:
    job = view.job
    begun_s = job.start_s if job.start_s and job.state != "PENDING" else view.now_s
    return str(max(int(begun_s) - int(job.submit_s), 0))


def most_cpus(view: JobView) -> str:
    job = view.job
    if job.tasks_given:
        return str(job.tasks * max(job.cpus_per_task, 1))
    return str(view.cpus if view.parts else 0)


def path(view: JobView, pattern: bytes) -> str:
    """Absolute, with the signs as they were given."""
    name = pattern or filename_patterns.default_output(view.job.array_job_id)
    name = name.replace(b"%j", b"%d" % view.job.id) if not pattern else name
    return os.fsdecode(os.path.join(view.job.work_dir, name))


FIELDS: dict[str, tuple[str, Callable[[JobView], str]]] = {
    "accruetime": ("ACCRUE_TIME", lambda v: times.stamp(v.job.eligible_s)),
    "allocnodes": ("ALLOC_NODES", lambda v: v.job.submit_host),
    "allocsid": ("ALLOC_SID", lambda v: str(v.job.submit_session)),
    "batchflag": ("BATCH_FLAG", lambda v: str(int(v.job.kind == "batch"))),
    "cluster": ("CLUSTER", lambda v: settings.load().cluster),
    "cpus-per-task": ("CPUS_PER_TASK", lambda v: str(v.job.cpus_per_task or 1)),
    "cpus-per-tres": (
        "CPUS_PER_TRES",
        lambda v: gres_of(str(v.job.cpus_per_gpu or "")),
    ),
    "derivedec": ("DERIVED_EC", lambda v: str(v.derived_exit_code)),
    "eligibletime": ("ELIGIBLE_TIME", lambda v: times.stamp(v.eligible_s)),
    "exit_code": ("EXIT_CODE", lambda v: str(v.job.exit_code * 256 + v.job.exit_signal)),
    "lastschedeval": (
        "LAST_SCHED_EVAL",
        lambda v: times.stamp(v.job.start_s or v.job.submit_s),
    ),
    "gres": ("TRES_PER_NODE", per_node),
    "maxcpus": ("MAX_CPUS", most_cpus),
    "maxnodes": ("MAX_NODES", lambda v: str(v.job.nodes_max if v.job.nodes_given else 0)),
    "mintime": ("TIME_MIN", lambda v: times.short(v.job.time_least_min * 60)),
    "ntpernode": ("NTASKS_PER_NODE", lambda v: str(v.job.tasks_per_node)),
    "numtasks": ("TASKS", lambda v: str(v.job.tasks)),
    "pendingtime": ("PENDING_TIME", pending_s),
    "requeue": ("REQUEUE", lambda v: str(v.job.requeue)),
    "restartcnt": ("RESTART_COUNT", lambda v: str(v.job.restarts)),
    "stderr": ("STDERR", lambda v: path(v, v.job.stderr or v.job.stdout)),
    "stdin": ("STDIN", lambda v: path(v, v.job.stdin or b"/dev/null")),
    "stdout": ("STDOUT", lambda v: path(v, v.job.stdout)),
    "tres": ("TRES_ALLOC", tres),
    "tres-alloc": ("TRES_ALLOC", tres),
    "tres-per-job": ("TRES_PER_JOB", lambda v: gres_of(v.job.gpus)),
    "tres-per-task": ("TRES_PER_TASK", lambda v: gres_of(v.job.gpus_per_task)),
}

REFUSED = """
admin_comment associd boardspernode burstbuffer burstbufferstate clusterfeature container deadline
delayboot hetjobid hetjobidset hetjoboffset mcslabel mem-per-tres network ntperboard ntpercore
ntpersocket origin originraw preempttime prefer profile reboot reqswitch resizetime siblingsactive
siblingsactiveraw siblingsviable siblingsviableraw sperboard system_comment tres-bind tres-freq
tres-per-socket wait4switch
"""
"""Fields about things that the box does not have."""
