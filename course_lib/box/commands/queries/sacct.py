"""sacct: what became of jobs and their steps."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import hostlist, settings
from course_lib.box.commands.shared import dates, job_filter
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax
from course_lib.box.dispatch import upkeep
from course_lib.box.formats import sacct_fields
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.sacct_fields import FIELDS, NAMES, WIDTH, Line
from course_lib.box.queue import rows
from course_lib.box.queue.records import Allocation, Job, StepRecord

USAGE = "sacct [options]"
SYNTAX = Syntax(
    "sacct",
    "accounts,A= allocations,X allclusters,L allusers,a batch-script,B brief,b cluster,M="
    " clusters= completion,c constraints,C= delimiter= duplicates,D endtime,E= env-vars"
    " federation format,o= group= gid= uid= helpformat,e help,h jobs,j= json"
    " local long,l ncpus,I= name= nnodes,i= nodelist,N= noconvert noheader,n parsable,p"
    " parsable2,P partition,r= qos,q= reason,R= starttime,S= state,s= timelimit-max,K="
    " timelimit-min,k= truncate,T units= usage,U user,u= use-local-uid verbose,v version,V"
    " wckeys,W= whole-hetjob? associations,x= flags,F= yaml",
)
DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,"
    "MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,"
    "MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,"
    "ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,"
    "MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,"
    "ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,"
    "TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,TRESUsageOutMax,"
    "TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,TRESUsageOutTot"
)


def run(arguments: list[str]) -> int:
    pairs, rest = SYNTAX.parse(arguments)
    if rest:
        raise Failure("Unknown arguments:", *[f" {word}" for word in rest])
    options = {name: value or "" for name, value in pairs}
    for name in ("json", "yaml", "completion", "env-vars", "federation"):
        if name in options:
            raise Unsupported(f"--{name}")
    if "helpformat" in options:
        _list_fields()
        return 0
    fields = _fields([value or "" for name, value in pairs if name == "format"], options)
    lines = _lines(options)
    upkeep.try_to_bring_up_to_date()
    if "batch-script" in options:
        return _scripts(options)
    box = settings.load()
    sacct_fields.CLUSTER[0], sacct_fields.NODE_MEMORY_MIB[0] = box.cluster, box.memory_per_node_mib
    _print(fields, lines(), options)
    return 0


def _list_fields() -> None:
    for row in range(0, len(NAMES), 4):
        print(" ".join(f"{name:<19}" for name in NAMES[row : row + 4]))


def _fields(formats: list[str], options: dict[str, str]) -> list[tuple[str, int]]:
    """Names in their own spelling with their widths, 0 for as wide as needed."""
    text = ",".join(formats) or os.environ.get("SACCT_FORMAT", "")
    if not text or ("brief" in options and not formats):
        text = BRIEF if "brief" in options else LONG if "long" in options else DEFAULT
    lower = {name.lower(): name for name in NAMES}
    found = []
    items = [i for w in text.split(",") for i in (NAMES if w.upper() == "ALL" else [w])]
    for item in items:
        if not item:
            continue
        asked, _, width = item.partition("%")
        near = [full for name, full in lower.items() if name.startswith(asked.lower())]
        name = lower.get(asked.lower()) or (near[0] if near else None)
        if name is None:
            raise Failure(f'Invalid field requested: "{asked}"')
        try:
            found.append((name, int(width) if width else WIDTH[name]))
        except ValueError:
            raise Failure(f'Invalid field requested: "{item}"') from None
    last = dict(found)  # of a field given twice, the last width counts for both, as in Slurm
    return [(name, last[name]) for name, _ in found]


def _lines(options: dict[str, str]):  # type: ignore[no-untyped-def]
    """Checks the options now; reads the state file when called."""
    wanted = _ids(options.get("jobs", ""))
    users = job_filter.words(options.get("user", options.get("uid", "")))
    _check_users(users)
    states = _states(options.get("state", ""))
    start_s, end_s = _window(options, bool(wanted))
    names = job_filter.words(options.get("name", ""))
    accounts = job_filter.words(options.get("accounts", ""))
    partitions = job_filter.words(options.get("partition", ""))
    nodes = set(hostlist.expand(options.get("nodelist", "")))
    everyone = "allusers" in options or os.getuid() == 0 or bool(users)

    def passes(job: Job) -> bool:
        begun = job.end_s == 0 or job.end_s >= start_s
        return (
            (not wanted or job.id in wanted)
            and (not users or bool({job.user, str(job.uid)} & users))
            and (everyone or job.uid == os.getuid())
            and (not states or job.state in states)
            and (not names or job.name in names)
            and (not accounts or job.account in accounts)
            and (not partitions or job.partition in partitions)
            and begun
            and job.submit_s <= end_s
        )

    def read() -> list[Line]:
        with rows.snapshot() as db:
            jobs = [job for job in rows.jobs(db, columns=rows.ALL_COLUMNS) if passes(job)]
            parts: dict[int, list[Allocation]] = {}
            for job_id, part in rows.all_allocations(db):
                parts.setdefault(job_id, []).append(part)
            steps: dict[int, list[StepRecord]] = {}
            for step in rows.steps(db):
                steps.setdefault(step.job_id, []).append(step)
        lines = []
        for job in jobs:
            view = JobView(job, parts.get(job.id, []))
            if nodes and not nodes & {part.node for part in view.parts}:
                continue
            own = sorted(steps.get(job.id, []), key=lambda s: (s.step != "batch", s.start_s))
            asked = wanted.get(job.id, set())
            if not asked:
                lines.append(Line(view, None, own))
            if "allocations" not in options:
                lines += [Line(view, s, own) for s in own if not asked or s.step in asked]
        return lines

    return read


def _ids(text: str) -> dict[int, set[str]]:
    """Job -> steps asked for (none: all)."""
    found: dict[int, set[str]] = {}
    for word in text.split(","):
        if not word:
            continue
        job, dot, step = word.partition(".")
        if not job.isdigit():
            print(f"sacct: fatal: Bad job/step specified: {word}", file=sys.stderr)
            raise Failure(code=1)
        steps = found.setdefault(int(job), set())
        if dot:
            steps.add(step)
    return found


def _check_users(users: set[str]) -> None:
    import pwd

    for user in users:
        if not user.isdigit():
            try:
                pwd.getpwnam(user)
            except KeyError:
                raise Failure(f"Invalid user id: {user}") from None


def _states(text: str) -> set[str]:
    try:
        return job_filter.states(text)
    except Failure:
        print(f"sacct: fatal: unrecognized job state value '{text}'", file=sys.stderr)
        raise Failure(code=1) from None


def _window(options: dict[str, str], by_id: bool) -> tuple[float, float]:
    midnight_s = dates.parse("today")
    start_s = 0.0 if by_id else midnight_s
    try:
        if options.get("starttime"):
            start_s = dates.parse(options["starttime"], past=True)
        end = options.get("endtime")
        return start_s, dates.parse(end, past=True) if end else time.time() + 1
    except dates.TimeError as error:
        print(f"Invalid time specification (pos=0): {error}", file=sys.stderr)
        raise Failure(code=1) from None


def _scripts(options: dict[str, str]) -> int:
    for job_id in _ids(options.get("jobs", "")):
        with rows.snapshot() as db:
            job = rows.job(db, job_id)
        if job is not None:
            print(f"Batch Script for {job_id}\n" + "-" * 80)
            sys.stdout.write(job.script.decode("utf-8", "surrogateescape"))
    return 0


def _print(fields: list[tuple[str, int]], lines: list[Line], options: dict[str, str]) -> None:
    out = []
    parsable = "parsable" in options or "parsable2" in options
    mark = options.get("delimiter") or "|"
    if "noheader" not in options:
        if parsable:
            out.append(_joined([name for name, _ in fields], mark, "parsable" in options))
        else:
            out.append("".join(_pad(name, width, cut="") + " " for name, width in fields))
            out.append("".join("-" * abs(width) + " " for _, width in fields))
    for line in lines:
        cells = [FIELDS[name](line) if name in FIELDS else "" for name, _ in fields]
        if parsable:
            out.append(_joined(cells, mark, "parsable" in options))
        else:
            pairs = zip(cells, fields, strict=True)
            out.append("".join(_pad(cell, width) + " " for cell, (_, width) in pairs))
    sys.stdout.write("".join(line + "\n" for line in out))


def _joined(cells: list[str], mark: str, ended: bool) -> str:
    return mark.join(cells) + (mark if ended else "")


def _pad(text: str, width: int, cut: str = "+") -> str:
    """A text that is too long ends in `+`; a header is cut without."""
    size = abs(width)
    if not size:
        return text
    if len(text) > size:
        text = text[: size - len(cut)] + cut
    return text.ljust(size) if width < 0 else text.rjust(size)
