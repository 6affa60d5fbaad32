"""The scontrol command: show, hold, release and requeue jobs; show nodes and the configuration."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable

from course_lib.box import devices, hostlist, settings
from course_lib.box.commands import job_filter, listing
from course_lib.box.commands.command_line import INSTEAD, Failure, Syntax, Unsupported
from course_lib.box.commands.job_filter import JobWord
from course_lib.box.commands.job_view import JobView, memory, null, tres
from course_lib.box.commands.main import VERSION
from course_lib.box.commands.sinfo import NodeView, boot_s, free_mib, load, views
from course_lib.box.dispatch import upkeep
from course_lib.box.hostlist import compress_sorted
from course_lib.box.processes import control
from course_lib.box.queue import arrays, state, store
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.scheduling import first_come
from course_lib.box.scheduling.job_placement import per_node
from course_lib.box.steps import filename_patterns

Fields = dict[str, object]
UNKNOWN_JOB = "Invalid job id specified"
ENDED = "Job has already finished"


def complain(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def each_job(words: list[str], act: Callable[[Job], str]) -> int:
    """Change every job named in `words`. `act` returns an error text, or "" on success."""
    if len(words) < 2:
        return complain(f"too few arguments for keyword:{words[0]}")
    upkeep.bring_up_to_date()
    code = 0
    suspends = words[0].lower() != "requeue"
    for given in words[1:]:
        failed, last = False, ""
        for word in _listed(given, by_name=suspends):
            jobs = _named(word)
            several = "_" in word or len(jobs) > 1
            for trouble in list(map(act, jobs)) if jobs else [UNKNOWN_JOB]:
                last = trouble or "No error"
                if trouble:
                    code = complain(
                        f"{word}: {trouble}" if several else f"{trouble} for job {word}"
                    )
                    failed |= not several
        if failed and suspends:
            complain(f"slurm_suspend error: {last}")
    upkeep.run_pass()
    return code


def _listed(given: str, by_name: bool) -> list[str]:
    """Return the numbers in `12,13` or `jobid=12,13`, or the numbers of the jobs of a name."""
    key, equals, value = given.partition("=")
    kind = key.lower() if equals else ""
    if kind in ("name", "jobname") and by_name:
        with store.snapshot() as db:
            jobs = store.jobs(db, "name = ?", (value,))
        shown_s = time.time() - settings.load().job_shown_s
        return [str(job.id) for job in jobs if not job.end_s or job.end_s > shown_s]
    return job_filter.split_words(value if kind in ("jobid", "job") else given)


def _named(word: str) -> list[Job]:
    meant = job_filter.read_word(word)
    if meant is None:
        return []
    with store.transaction() as db:
        return arrays.split_off(db, meant.job_id, meant.tasks)


def hold(words: list[str]) -> int:
    """Hold jobs. If root holds a job, only root can release it."""

    def act(job: Job) -> str:
        if job.state in FINAL_STATES:
            return ENDED
        state.hold(job, "user" if os.getuid() else "admin")
        return ""

    return each_job(words, act)


def release(words: list[str]) -> int:
    def act(job: Job) -> str:
        if job.state in FINAL_STATES:
            return ENDED
        if job.hold:
            state.release(job.id)
        return ""

    return each_job(words, act)


def requeue(words: list[str]) -> int:
    def act(job: Job) -> str:
        if job.state == PENDING:
            return "Job is pending execution"
        if job.kind != "batch" or not job.requeue:
            return "Requested operation is presently disabled"
        state.ask_requeue(job.id)
        if job.state == RUNNING or job.completing:
            control.send(job.id, {"do": "requeue"})
        return ""

    return each_job(words, act)


SEPARATOR = "\n   "
SHOWN_SIGNS = re.compile("%([jAuxa])")


def job_paragraph(view: JobView) -> str:
    job, start_s, end_s = view.job, view.job.start_s, view.end_s
    if job.state == PENDING:
        start_s = job.begin_s if job.begin_s > job.submit_s else 0.0
        if start_s and job.time_limit_min > 0:
            end_s = start_s + job.time_limit_min * 60
    accrued_s = view.eligible_s if job.reason not in ("BeginTime", "Dependency") else 0.0
    array = f" ArrayJobId={job.array_job_id} ArrayTaskId={view.task_text}" if view.task_text else ""
    if array and job.array_most:
        array += f" ArrayTaskThrottle={job.array_most}"
    memory_kind = "MinMemoryCPU" if job.memory_per_cpu else "MinMemoryNode"
    lines = [
        f"JobId={job.id}{array} JobName={job.name}",
        f"UserId={job.user}({job.uid}) GroupId={job.group_name}({job.gid}) MCS_label=N/A",
        f"Priority={view.priority} Nice=0 Account={null(job.account)} QOS={null(job.qos)}",
        f"JobState={view.state} Reason={job.reason.replace(' ', '_')}"
        f" Dependency={null(view.dependency)}",
        f"Requeue={job.requeue} Restarts={job.restarts} BatchFlag={int(job.kind == 'batch')}"
        f" Reboot=0 ExitCode={job.exit_code}:{job.exit_signal}",
        f"RunTime={listing.full(view.elapsed_s)} TimeLimit={listing.limit_full(job.time_limit_min)}"
        " TimeMin=N/A",
        f"SubmitTime={moment(job.submit_s)} EligibleTime={moment(view.eligible_s)}",
        f"AccrueTime={moment(accrued_s)}",
        f"StartTime={moment(start_s)} EndTime={moment(end_s)} Deadline=N/A",
        "SuspendTime=None SecsPreSuspend=0"
        f" LastSchedEval={moment(job.start_s or job.submit_s)} Scheduler=Main",
        f"Partition={job.partition} AllocNode:Sid={job.submit_host}:{job.submit_session}",
        f"ReqNodeList={null(_names(job.want_nodes))} ExcNodeList={null(_names(job.exclude_nodes))}",
        f"NodeList={view.nodes}",
        *([f"BatchHost={job.batch_host}"] if view.parts else []),
        f"NumNodes={node_count(view)} NumCPUs={view.cpus} NumTasks={job.tasks}"
        f" CPUs/Task={job.cpus_per_task or 1} ReqB:S:C:T=0:0:*:*",
        f"TRES={tres(view)}",
        f"Socks/Node=* NtasksPerN:B:S:C={job.tasks_per_node}:0:*:* CoreSpec=*",
        f"MinCPUsNode={max(job.tasks_per_node, 1) * max(job.cpus_per_task, 1)}"
        f" {memory_kind}={memory(view)} MinTmpDiskNode=0",
        "Features=(null) DelayBoot=00:00:00",
        f"OverSubscribe={'NO' if job.exclusive else 'OK'} Contiguous=0 Licenses=(null)"
        " Network=(null)",
        *_files(view),
    ]
    return SEPARATOR.join(lines)


def moment(moment_s: float) -> str:
    return listing.stamp(moment_s, "Unknown")


def _names(text: str) -> str:
    return compress_sorted(text.split(",")) if text else ""


def node_count(view: JobView) -> str:
    """Return `2-2` while the job is pending and -N was given, otherwise a single number."""
    job = view.job
    if view.parts or not job.nodes_given or job.state != PENDING:
        return str(view.node_count)
    return f"{job.nodes_shown}-{job.nodes_min}"


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
    asked = {"Job": job.gpus, "Node": per_node(job), "Task": job.gpus_per_task}
    lines += [f"TresPer{of}=gres:gpu:{count}" for of, count in asked.items() if count]
    return [*lines, ""]


def shown_path(job: Job, pattern: bytes) -> str:
    """Return an absolute path with the filename patterns that scontrol knows filled in."""
    values = filename_patterns.of_task(
        job.id,
        "batch",
        job.batch_host,
        name=job.name,
        array=(job.array_job_id, job.array_task),
    )
    path = os.path.join(job.work_dir, pattern or filename_patterns.default_output(job.array_job_id))
    return SHOWN_SIGNS.sub(lambda sign: values[sign[1]], os.fsdecode(path))


def node_paragraph(view: NodeView) -> str:
    box = view.box
    machine = platform.uname()
    used = view.cpus_used
    booted = listing.stamp(boot_s(), "None")
    lines = [
        f"NodeName={view.name} Arch={machine.machine} CoresPerSocket={box.cpus_per_node} ",
        f"CPUAlloc={used} CPUEfctv={box.cpus_per_node} CPUTot={box.cpus_per_node} CPULoad={load()}",
        "AvailableFeatures=(null)",
        "ActiveFeatures=(null)",
        f"Gres={view.gres}",
        f"NodeAddr={view.name} NodeHostName={view.name} Version=22.05.8",
        f"OS={machine.system} {machine.release} {machine.version} ",
        f"RealMemory={box.memory_per_node_mib} AllocMem=0 FreeMem={free_mib()} Sockets=1 Boards=1",
        f"State={view.full_state.upper()} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A"
        " MCS_label=N/A",
        f"Partitions={','.join(box.partition_names)} ",
        f"BootTime={booted} SlurmdStartTime={booted}",
        f"LastBusyTime={moment(view.busy_s)}",
        *_resources(view),
        "CapWatts=n/a",
        "CurrentWatts=0 AveWatts=0",
        "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
        *_comment(box),
    ]
    return SEPARATOR.join(lines)


def _comment(box: settings.Settings) -> list[str]:
    """Return a comment on the device pace. Slurm shows an administrator's comment here."""
    pace = devices.of_slot(box)
    if pace.factor == 1 and not pace.unused:
        return []
    unused = f"; {pace.unused}" if pace.unused else ""
    return [f"Comment=device_pace={pace.factor:g} ({pace.why}{unused})"]


def _resources(view: NodeView) -> list[str]:
    box, used, held = view.box, view.cpus_used, len(view.devices_used)
    has = f"cpu={box.cpus_per_node},mem={box.memory_per_node_mib}M,billing={box.cpus_per_node}"
    devices = f",gres/gpu={box.devices_per_node}" if box.devices_per_node else ""
    taken = f"cpu={used}" + (f",gres/gpu={held}" if held else "") if used else ""
    return [f"CfgTRES={has}{devices}", f"AllocTRES={taken}"]


def show(words: list[str], one_line: bool = False) -> int:
    if len(words) > 1 and "=" in words[1]:  # `show job=12`
        words = ["show", *words[1].split("=", 1), *words[2:]]
    if len(words) < 2:
        return complain("too few arguments for keyword:show")
    entity = words[1].lower()
    if entity not in ENTITIES:
        raise _refused(f"scontrol show {entity}", ENTITIES)
    if len(words) > 3:
        return complain("too many arguments for keyword:show")
    if entity.startswith("hostname"):
        return _hostnames(words[2:])
    paragraphs, trouble = ENTITIES[entity](words[2] if len(words) > 2 else "")
    for text in paragraphs:
        print(text.replace(SEPARATOR, " ") if one_line else text + "\n")
    if trouble:
        print(trouble)
    return 1 if trouble else 0


Shown = tuple[list[str], str]


def _jobs(word: str) -> Shown:
    meant = job_filter.read_word(word)
    if word and meant is None:
        print(f"scontrol_print_job error: {UNKNOWN_JOB}", file=sys.stderr)
        raise Failure()
    upkeep.try_to_bring_up_to_date()
    with store.snapshot() as db:
        where, values = store.SHOWN, [time.time() - settings.load().job_shown_s]
        if meant is not None:
            where += " AND (id = ? OR array_job_id = ?)"
            values += [meant.job_id, meant.job_id]
        jobs = store.jobs(db, where, tuple(values), store.ALL_COLUMNS)
        views_ = [JobView(job, store.allocations(db, job.id)) for job in _select_jobs(jobs, meant)]
        for view in views_:
            view.dependency = first_come.dependency_shown(db, view.job)
    if views_:
        return [job_paragraph(view) for view in views_], ""
    if jobs and meant is not None and meant.tasks:
        return [], f"Job {meant.job_id}_{min(meant.tasks)} not found"
    if word:
        print(f"slurm_load_jobs error: {UNKNOWN_JOB}", file=sys.stderr)
        raise Failure()
    print("No jobs in the system")
    return [], ""


def _select_jobs(jobs: list[Job], meant: JobWord | None) -> list[Job]:
    """Sort jobs as Slurm does: the row with the array's own number first, then the newest first."""
    if meant is None:
        return jobs
    chosen = [job_filter.narrowed(job, [meant]) for job in jobs if meant.means(job)]
    return sorted(chosen, key=lambda job: (job.id != meant.job_id, -job.id))


def _nodes(word: str) -> Shown:
    upkeep.try_to_bring_up_to_date()
    with store.snapshot() as db:
        known = {view.name: view for view in views(db, settings.load())}
    names = _expanded(word) if word else list(known)
    missing = "\n".join(f"Node {name} not found" for name in names if name not in known)
    return [node_paragraph(known[name]) for name in names if name in known], missing


def _expanded(word: str) -> list[str]:
    try:
        return hostlist.expand(word)
    except hostlist.HostListError:
        print(f"Invalid hostlist: {word}", file=sys.stderr)
        raise Failure(code=0) from None


def _hostnames(words: list[str]) -> int:
    if words == [""]:
        return 0
    text = words[0] if words else os.environ.get("SLURM_NODELIST", "")
    if not text:
        print("scontrol: error: host list is empty", file=sys.stderr)
    print("".join(f"{name}\n" for name in _expanded(text)), end="")
    return 0


def _config(_: str) -> Shown:
    """Return the configuration values from which programs recognize a cluster."""
    box = settings.load()
    values = {
        "ClusterName": box.cluster,
        "KillWait": f"{box.kill_wait_s:g} sec",
        "MaxArraySize": str(arrays.MAX_ARRAY_SIZE),
        "MinJobAge": f"{box.job_shown_s:g} sec",
        "SLURM_VERSION": "22.05.8",
        "StateSaveLocation": settings.state_home(),
    }
    lines = [f"Configuration data as of {listing.stamp(time.time())}"]
    return ["\n".join([*lines, *(f"{name:<23} = {text}" for name, text in values.items())])], ""


ENTITIES: dict[str, Callable[[str], Shown]] = {
    **dict.fromkeys(("job", "jobs", "jobid"), _jobs),
    **dict.fromkeys(("node", "nodes"), _nodes),
    **dict.fromkeys(("hostname", "hostnames"), lambda _: ([], "")),
    "config": _config,
}


USAGE = "scontrol [options] command"
SYNTAX = Syntax(
    "scontrol",
    "all,a cluster,M=! clusters=! details,d! future,F! help,h hide! local! federation! oneliner,o"
    " quiet,Q! sibling! uid,u=! usage verbose,v version,V json! yaml!",
)
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "hold": hold,
    "release": release,
    "requeue": requeue,
}


def run(arguments: list[str]) -> int:
    pairs, words = SYNTAX.parse(arguments)
    word = words[0].lower() if words else "without a command"
    if word == "show":
        return show(words, ("oneliner", None) in pairs)
    if word == "version":
        print(VERSION)
        return 0
    if word not in COMMANDS:
        raise _refused(f"scontrol {word}", (*COMMANDS, "show", "version"))
    return COMMANDS[word](words)


def _refused(what: str, known: Iterable[str]) -> Unsupported:
    return Unsupported(what, known=() if what in INSTEAD else known)
