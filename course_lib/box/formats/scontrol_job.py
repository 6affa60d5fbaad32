"""The paragraphs of `scontrol show job` and `show step`."""

from __future__ import annotations

import os
import re

from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.squeue_fields import memory, null, over_subscribe, tres
from course_lib.box.hostlist import compress_sorted
from course_lib.box.queue.records import PENDING, Allocation, Job, StepRecord
from course_lib.box.steps import filename_patterns

SEPARATOR = "\n   "
SHOWN_SIGNS = re.compile("%([jAuxa])")


def job_paragraph(view: JobView, details: bool) -> str:
    lines = [
        *_identity(view, details),
        *_times(view),
        *_nodes(view, details),
        *_files(view),
    ]
    return SEPARATOR.join(line for line in lines if line is not None)


def _identity(view: JobView, details: bool) -> list[str]:
    job = view.job
    reason = job.reason.replace(" ", "_")
    array = f" ArrayJobId={job.array_job_id} ArrayTaskId={view.task_text}" if view.task_text else ""
    if array and job.array_most:
        array += f" ArrayTaskThrottle={job.array_most}"
    lines = [
        f"JobId={job.id}{array} JobName={job.name}",
        f"UserId={job.user}({job.uid}) GroupId={job.group_name}({job.gid}) MCS_label=N/A",
        f"Priority={view.priority} Nice={job.nice} Account={null(job.account)} QOS={null(job.qos)}"
        + (f" WCKey={job.wckey}" if job.wckey else ""),
        f"JobState={view.state} Reason={reason} Dependency={null(view.dependency)}",
        f"Requeue={job.requeue} Restarts={job.restarts} BatchFlag={int(job.kind == 'batch')}"
        f" Reboot=0 ExitCode={job.exit_code}:{job.exit_signal}",
    ]
    if details:
        lines.append(f"DerivedExitCode={view.derived_exit_code}:0")
    return lines


def _times(view: JobView) -> list[str]:
    job = view.job
    least = times.limit_full(job.time_least_min) if job.time_least_min else "N/A"
    start_s = job.start_s
    if job.state == PENDING:
        start_s = job.begin_s if job.begin_s > job.submit_s else view.estimated_start_s
    end_s = view.end_s
    if job.state == PENDING and start_s and job.time_limit_min > 0:
        end_s = start_s + job.time_limit_min * 60
    accrued = job.eligible_s if job.reason not in ("BeginTime", "Dependency") else 0.0
    looked = times.stamp(job.start_s or job.submit_s, "Unknown")
    return [
        f"RunTime={times.full(view.elapsed_s)} TimeLimit={times.limit_full(job.time_limit_min)}"
        f" TimeMin={least}",
        f"SubmitTime={times.stamp(job.submit_s, 'Unknown')}"
        f" EligibleTime={times.stamp(view.eligible_s, 'Unknown')}",
        f"AccrueTime={times.stamp(accrued, 'Unknown')}",
        f"StartTime={times.stamp(start_s, 'Unknown')} EndTime={times.stamp(end_s, 'Unknown')}"
        " Deadline=N/A",
        f"SuspendTime=None SecsPreSuspend=0 LastSchedEval={looked} Scheduler=Main",
    ]


def _nodes(view: JobView, details: bool) -> list[str]:
    job = view.job
    lines = [
        f"Partition={job.partition} AllocNode:Sid={job.submit_host}:{job.submit_session}",
        f"ReqNodeList={null(_names(job.want_nodes))} ExcNodeList={null(_names(job.exclude_nodes))}",
        f"NodeList={view.nodes}",
    ]
    if view.parts:
        lines.append(f"BatchHost={job.batch_host}")
    lines += [
        f"NumNodes={node_count(view)} NumCPUs={view.cpus} NumTasks={job.tasks}"
        f" CPUs/Task={job.cpus_per_task or 1} ReqB:S:C:T=0:0:*:{job.threads_per_core or '*'}",
        f"TRES={tres(view)}",
        f"Socks/Node=* NtasksPerN:B:S:C={job.tasks_per_node}:0:*:* CoreSpec=*",
    ]
    if details and view.parts:
        lines += _details(view)
    memory_kind = "MinMemoryCPU" if job.memory_per_cpu else "MinMemoryNode"
    least = max(job.cpus_min, max(job.tasks_per_node, 1) * max(job.cpus_per_task, 1))
    lines += [
        f"MinCPUsNode={least} {memory_kind}={memory(view)} MinTmpDiskNode=0",
        f"Features={null(job.constraint_text)} DelayBoot=00:00:00",
        f"OverSubscribe={over_subscribe(view)} Contiguous=0 Licenses={null(job.licenses)}"
        " Network=(null)",
    ]
    if job.reservation:
        lines.append(f"Reservation={job.reservation}")
    return lines


def _names(text: str) -> str:
    return compress_sorted(text.split(",")) if text else ""


def node_count(view: JobView) -> str:
    """`2-2` while it waits and -N was given, else one number."""
    job = view.job
    if view.parts or not job.nodes_given or job.state != PENDING:
        return str(view.node_count)
    return f"{job.nodes_shown}-{job.nodes_max}"


def _details(view: JobView) -> list[str]:
    lines = [f"JOB_GRES={f'gpu:{view.devices}' if view.devices else '(null)'}"]
    groups: list[tuple[list[str], Allocation]] = []
    for part in view.parts:
        if groups and (groups[-1][1].cpus, groups[-1][1].devices) == (part.cpus, part.devices):
            groups[-1][0].append(part.node)
        else:
            groups.append(([part.node], part))
    for names, part in groups:
        count = len(part.devices)
        gres = f"gpu:{count}(IDX:{ranges(part.devices)})" if count else ""
        lines.append(
            f"  Nodes={compress_sorted(names)} CPU_IDs={ranges(part.cpus)} Mem=0 GRES={gres}"
        )
    return lines


def ranges(numbers: tuple[int, ...]) -> str:
    """0-3,6"""
    text = compress_sorted([f"x{number}" for number in numbers])
    return text.removeprefix("x").strip("[]")


def _files(view: JobView) -> list[str]:
    job = view.job
    lines = [f"Command={view.command}", f"WorkDir={os.fsdecode(job.work_dir)}"]
    if job.comment:
        lines.append(f"Comment={job.comment} ")
    if job.kind == "batch":
        lines += [
            f"StdErr={shown_path(job, job.stderr or job.stdout)}",
            f"StdIn={shown_path(job, job.stdin or b'/dev/null')}",
            f"StdOut={shown_path(job, job.stdout)}",
        ]
    lines.append("Power=")
    pairs = (
        ("CpusPerTres", str(job.cpus_per_gpu or "")),
        ("TresPerJob", job.gpus),
        ("TresPerNode", job.gpus_per_node or job.gres.removeprefix("gres:")),
        ("TresPerTask", job.gpus_per_task),
    )
    for name, text in pairs:
        if text:
            lines.append(f"{name}=gres:{text if text.startswith('gpu') else 'gpu:' + text}")
    if job.mail_type not in ("", "NONE"):
        lines.append(f"MailUser={job.mail_user or job.user} MailType={job.mail_type}")
    if job.tasks_per_gpu:
        lines.append(f"NtasksPerTRES={job.tasks_per_gpu}")
    lines.append("")
    return lines


def shown_path(job: Job, pattern: bytes) -> str:
    """Absolute, with the signs filled in that scontrol knows."""
    values = filename_patterns.of_task(
        job.id,
        "batch",
        job.batch_host,
        name=job.name,
        user=job.user,
        array=(job.array_job_id, job.array_task),
    )
    path = os.path.join(job.work_dir, pattern or filename_patterns.default_output(job.array_job_id))
    return SHOWN_SIGNS.sub(lambda sign: values[sign[1]], os.fsdecode(path))


def step_paragraph(step: StepRecord, view: JobView) -> str:
    batch = step.step == "batch"
    held = f",gres/gpu={step.devices}" if step.devices else ""
    lines = [
        f"StepId={view.shown_id}.{step.step} UserId={view.job.uid}"
        f" StartTime={times.stamp(step.start_s, 'Unknown')}"
        f" TimeLimit={times.limit_full(step.time_limit_min)}",
        f"State={step.state} Partition={view.job.partition} NodeList={step.nodes}",
        f"Nodes={step.node_count} CPUs={0 if batch else step.cpus} Tasks={step.tasks}"
        f" Name={step.name} Network=(null)",
        "TRES=(null)" if batch else f"TRES=cpu={step.cpus}{held},mem=0,node={step.node_count}",
        "ResvPorts=(null)",
        "CPUFreqReq=Default" + ("" if batch else " Dist=Block"),
        "SrunHost:Pid=(null):0" if batch else f"SrunHost:Pid={view.job.batch_host}:0",
    ]
    if not batch:
        if step.cpus == view.cpus:
            lines.append(f"TresPerStep=cpu:{step.tasks}")
        if step.devices:
            lines.append(f"TresPerNode=gres:gpu:{step.devices // max(step.node_count, 1)}")
    return SEPARATOR.join(lines)
