"""The squeue command: show waiting, running and ending jobs."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands import command_line, job_filter, listing
from course_lib.box.commands.command_line import Failure, Syntax
from course_lib.box.commands.job_view import COMPACT, JobView, memory, null
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import arrays
from course_lib.box.queue.records import PENDING
from course_lib.box.scheduling.job_placement import per_node
from course_lib.box.settings import UNLIMITED


def time_left(view: JobView) -> str:
    job = view.job
    if job.time_limit_min == UNLIMITED:
        return "UNLIMITED"
    return listing.short(max(job.time_limit_min * 60 - int(view.elapsed_s), 0))


def devices(view: JobView) -> str:
    count = per_node(view.job)
    return f"gres:gpu:{count}" if count else "N/A"


def start(view: JobView) -> str:
    job = view.job
    if job.state == PENDING:
        return listing.stamp(job.begin_s if job.begin_s > job.submit_s else 0)
    return listing.stamp(job.start_s)


FIELDS = listing.Fields(
    "squeue",
    [
        ("account", "a", "ACCOUNT", lambda v: null(v.job.account)),
        ("tres-per-node", "b", "TRES_PER_NODE", devices),
        ("endtime", "e", "END_TIME", lambda v: listing.stamp(v.end_s)),
        ("jobid", "A", "JOBID", lambda v: str(v.job.id)),
        ("jobarrayid", "i", "JOBID", lambda v: v.shown_id),
        ("name", "j", "NAME", lambda v: v.job.name),
        ("command", "o", "COMMAND", lambda v: v.command),
        ("comment", "k", "COMMENT", lambda v: null(v.job.comment)),
        ("timelimit", "l", "TIME_LIMIT", lambda v: listing.limit_short(v.job.time_limit_min)),
        ("minmemory", "m", "MIN_MEMORY", memory),
        ("reason", "r", "REASON", lambda v: v.job.reason),
        ("statecompact", "t", "ST", lambda v: COMPACT[v.state]),
        ("username", "u", "USER", lambda v: v.job.user),
        ("batchhost", "B", "EXEC_HOST", lambda v: v.job.batch_host or "n/a"),
        ("numcpus", "C", "CPUS", lambda v: str(v.cpus)),
        ("numnodes", "D", "NODES", lambda v: str(v.node_count)),
        ("dependency", "E", "DEPENDENCY", lambda v: null(v.dependency)),
        ("arrayjobid", "F", "ARRAY_JOB_ID", lambda v: str(v.job.array_job_id or v.job.id)),
        ("arraytaskid", "K", "ARRAY_TASK_ID", lambda v: v.task_text or "N/A"),
        ("timeleft", "L", "TIME_LEFT", time_left),
        ("timeused", "M", "TIME", lambda v: listing.short(v.elapsed_s)),
        ("nodelist", "N", "NODELIST", lambda v: v.nodes),
        ("partition", "P", "PARTITION", lambda v: v.job.partition),
        ("prioritylong", "Q", "PRIORITY", lambda v: str(v.priority)),
        ("reasonlist", "R", "NODELIST(REASON)", lambda v: v.reason_or_nodes),
        ("starttime", "S", "START_TIME", start),
        ("state", "T", "STATE", lambda v: v.state),
        ("submittime", "V", "SUBMIT_TIME", lambda v: listing.stamp(v.job.submit_s)),
        ("workdir", "Z", "WORK_DIR", lambda v: os.fsdecode(v.job.work_dir)),
    ],
)


def apart(views: list[JobView]) -> list[JobView]:
    """Return one view for each waiting task of an array."""
    found = []
    for view in views:
        tasks = arrays.numbers(view.job.array_waiting) if view.job.state == PENDING else []
        found += [_with(view, task) for task in tasks] or [view]
    return found


def _with(view: JobView, task: int) -> JobView:
    own = JobView(arrays.changed(view.job, array_task=task, array_waiting=""), [], view.now_s)
    own.dependency = view.dependency
    return own


USAGE = "squeue [options]"
SYNTAX = Syntax(
    "squeue",
    "account|accounts,A=! all,a array,r array-unique! clusters|cluster,M=! federation! Format,O=!"
    " format,o= help hide! iterate,i=! jobs,j? json! licenses,L=! local! long,l me name,n="
    " noconvert! nodelist|node|nodes,w=! noheader,h partition|partitions,p= priority,P! qos,q=!"
    " reservation,R=! sibling|sib! sort,S= start! states,t= steps,s?! usage user|users,u= verbose,v"
    " version,V yaml!",
)
VARIABLES = {
    "SQUEUE_FORMAT": "format",
    "SQUEUE_PARTITION": "partition",
    "SQUEUE_SORT": "sort",
    "SQUEUE_STATES": "states",
    "SQUEUE_USERS": "user",
}
DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    options = command_line.from_environment(VARIABLES)
    options |= {name: value or "" for name, value in pairs}
    if ("jobs", None) in pairs:  # `-j 1` means `-j1`: the value is optional
        del options["jobs"]
        options |= {"jobs": words.pop(0)} if words else {}
    if words:
        print(f"Usage: {USAGE}")
        raise Failure(f"Unrecognized option: {words[0]}")
    upkeep.try_to_bring_up_to_date()
    return _show(options)


def _show(options: dict[str, str]) -> int:
    choice = job_filter.of_squeue(options)
    layout = _layout(options)
    jobs = choice.views()
    if len(choice.ids or ()) == 1 and not choice.known:
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    if "long" in options and "noheader" not in options:
        print(listing.now_line())
    FIELDS.print(layout, apart(jobs) if "array" in options else jobs, "noheader" not in options)
    return 0


def _layout(options: dict[str, str]) -> tuple[list[listing.Column], str]:
    default = LONG if "long" in options else DEFAULT
    return FIELDS.columns(options.get("format", default))
