"""The fields of squeue: letters for -o, names for -O, header and content of each."""

from __future__ import annotations

import os

from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.queue.records import PENDING
from course_lib.box.settings import UNLIMITED, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PRIORITY_UNIT = 4294967295.0


def null(text: str) -> str:
    return text or "(null)"


def time_left(view: JobView) -> str:
    job = view.job
    if job.time_limit_min == UNLIMITED:
        return "UNLIMITED"
    return times.short(max(job.time_limit_min * 60 - int(view.elapsed_s), 0))


def memory(view: JobView) -> str:
    """`2G`, `500M`; `0` where none was asked for."""
    text = view.job.memory or view.job.memory_per_cpu
    mib = int(text or 0)
    return units(mib) if mib else "0"


def units(mib: int) -> str:
    for size, unit in ((1024 * 1024, "T"), (1024, "G")):
        if mib >= size and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def per_node(view: JobView) -> str:
    job = view.job
    text = job.gpus_per_node or job.gres.removeprefix("gres:")
    if not text:
        return "N/A"
    return f"gres:{text}" if text.startswith("gpu") else f"gres:gpu:{text}"


def gres_of(text: str) -> str:
    return f"gres:gpu:{text}" if text else "N/A"


def over_subscribe(view: JobView) -> str:
    if view.job.exclusive:
        return view.job.exclusive_to.upper() or "NO"
    return "YES" if view.job.oversubscribe else "OK"


def tres(view: JobView) -> str:
    """What it holds, or would: then with memory, of which a node gives all unless asked for."""
    if view.parts:
        return held(view)
    job = view.job
    if job.memory_per_cpu:
        mib = int(job.memory_per_cpu) * view.cpus
    else:
        mib = (int(job.memory or 0) or load().memory_per_node_mib) * job.nodes_min
    head, _, tail = held(view).partition(",")
    return f"{head},mem={units(mib)},{tail}"


def held(view: JobView) -> str:
    nodes = len(view.parts) or view.job.nodes_min
    found = f"cpu={view.cpus},node={nodes},billing={view.cpus}"
    return found + (f",gres/gpu={view.devices}" if view.devices else "")


def start(view: JobView) -> str:
    job = view.job
    if job.state == PENDING:
        return times.stamp(job.begin_s if job.begin_s > job.submit_s else view.estimated_start_s)
    return times.stamp(job.start_s)


def end(view: JobView) -> str:
    job = view.job
    if job.state == PENDING and view.estimated_start_s and job.time_limit_min > 0:
        return times.stamp(view.estimated_start_s + job.time_limit_min * 60)
    return times.stamp(view.end_s)


def job_id(view: JobView) -> str:
    """Slurm has 31 letters for it, unless the length of lists of tasks is set."""
    shown = view.shown_id
    return shown if len(shown) < 32 or "SLURM_BITSTR_LEN" in os.environ else shown[:31]


FIELDS: dict[str, tuple[str, Callable[[JobView], str]]] = {
    "account": ("ACCOUNT", lambda v: null(v.job.account)),
    "tres-per-node": ("TRES_PER_NODE", per_node),
    "mincpus": ("MIN_CPUS", lambda v: str(max(v.job.cpus_per_task, 1))),
    "mintmpdisk": ("MIN_TMP_DISK", lambda v: "0"),
    "endtime": ("END_TIME", end),
    "feature": ("FEATURES", lambda v: null(v.job.constraint_text)),
    "groupname": ("GROUP", lambda v: v.job.group_name),
    "oversubscribe": ("OVER_SUBSCRIBE", over_subscribe),
    "jobid": ("JOBID", lambda v: str(v.job.id)),
    "jobarrayid": ("JOBID", job_id),
    "name": ("NAME", lambda v: v.job.name),
    "comment": ("COMMENT", lambda v: null(v.job.comment)),
    "timelimit": ("TIME_LIMIT", lambda v: times.limit_short(v.job.time_limit_min)),
    "minmemory": ("MIN_MEMORY", memory),
    "reqnodes": ("REQ_NODES", lambda v: v.job.want_nodes),
    "command": ("COMMAND", lambda v: v.command),
    "priority": ("PRIORITY", lambda v: f"{v.priority / PRIORITY_UNIT:.14f}"),
    "qos": ("QOS", lambda v: null(v.job.qos)),
    "reason": ("REASON", lambda v: v.job.reason),
    "selectjobinfo": ("", lambda v: ""),
    "statecompact": ("ST", lambda v: v.compact_state),
    "username": ("USER", lambda v: v.job.user),
    "reservation": ("RESERVATION", lambda v: null(v.job.reservation)),
    "wckey": ("WCKEY", lambda v: null(v.job.wckey)),
    "excnodes": ("EXC_NODES", lambda v: v.job.exclude_nodes),
    "nice": ("NICE", lambda v: str(v.job.nice)),
    "sct": ("S:C:T", lambda v: f"*:*:{v.job.threads_per_core or '*'}"),
    "batchhost": ("EXEC_HOST", lambda v: v.job.batch_host or "n/a"),
    "numcpus": ("CPUS", lambda v: str(v.cpus)),
    "numnodes": ("NODES", lambda v: str(v.node_count)),
    "dependency": ("DEPENDENCY", lambda v: null(v.dependency)),
    "arrayjobid": ("ARRAY_JOB_ID", lambda v: str(v.job.array_job_id or v.job.id)),
    "groupid": ("GROUP", lambda v: str(v.job.gid)),
    "sockets": ("SOCKETS_PER_NODE", lambda v: "*"),
    "cores": ("CORES_PER_SOCKET", lambda v: "*"),
    "threads": ("THREADS_PER_CORE", lambda v: str(v.job.threads_per_core or "*")),
    "arraytaskid": ("ARRAY_TASK_ID", lambda v: v.task_text or "N/A"),
    "timeleft": ("TIME_LEFT", time_left),
    "timeused": ("TIME", lambda v: times.short(v.elapsed_s)),
    "nodelist": ("NODELIST", lambda v: v.nodes),
    "contiguous": ("CONTIGUOUS", lambda v: "0"),
    "partition": ("PARTITION", lambda v: v.job.partition),
    "prioritylong": ("PRIORITY", lambda v: str(v.priority)),
    "reasonlist": ("NODELIST(REASON)", lambda v: v.reason_or_nodes),
    "starttime": ("START_TIME", start),
    "state": ("STATE", lambda v: v.state),
    "userid": ("UID", lambda v: str(v.job.uid)),
    "submittime": ("SUBMIT_TIME", lambda v: times.stamp(v.job.submit_s)),
    "licenses": ("LICENSES", lambda v: null(v.job.licenses)),
    "corespec": ("CORE_SPEC", lambda v: "N/A"),
    "schednodes": ("SCHEDNODES", lambda v: "(null)"),
    "workdir": ("WORK_DIR", lambda v: os.fsdecode(v.job.work_dir)),
}

IN_ORDER_OF_LETTERS = """
account tres-per-node mincpus mintmpdisk endtime feature groupname oversubscribe jobarrayid name
comment timelimit minmemory reqnodes command priority qos reason selectjobinfo statecompact username
reservation wckey excnodes nice sct jobid batchhost numcpus numnodes dependency arrayjobid groupid
sockets cores threads arraytaskid timeleft timeused nodelist contiguous partition prioritylong
reasonlist starttime state userid submittime licenses corespec schednodes workdir
"""
LETTERS: dict[str, str] = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        IN_ORDER_OF_LETTERS.split(),
        strict=True,
    )
)
