"""sacct: what became of jobs and their steps."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.queries.sacct_selection import AccountingSelection, ids
from course_lib.box.commands.shared import advice
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.shared.getopt import Syntax
from course_lib.box.dispatch import upkeep
from course_lib.box.formats.sacct_fields import FIELDS, NAMES, WIDTH, AccountingLine
from course_lib.box.queue import rows

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
            raise Unsupported(f"--{name}", advice.of_option(name))
    if "helpformat" in options:
        _list_fields()
        return 0
    fields = _fields([value or "" for name, value in pairs if name == "format"], options)
    options["jobs"] = ",".join(value or "" for name, value in pairs if name == "jobs")
    selection = AccountingSelection(options)
    upkeep.try_to_bring_up_to_date()
    if "batch-script" in options:
        return _scripts(options)
    _print(fields, selection.lines(), options)
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
        asked, _, width = item.lstrip().partition("%")
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


def _scripts(options: dict[str, str]) -> int:
    for named in ids(options.get("jobs", "")):
        with rows.snapshot() as db:
            job = rows.job(db, named.word.job_id)
        if job is not None:
            print(f"Batch Script for {job.id}\n" + "-" * 80)
            sys.stdout.write(job.script.decode("utf-8", "surrogateescape"))
    return 0


def _print(
    fields: list[tuple[str, int]], lines: list[AccountingLine], options: dict[str, str]
) -> None:
    out = []
    parsable = "parsable" in options or "parsable2" in options
    mark = options.get("delimiter", "|")
    if "noheader" not in options:
        if parsable:
            out.append(_joined([name for name, _ in fields], mark, "parsable" in options))
        else:
            out.append("".join(padded(name, width, cut="") + " " for name, width in fields))
            out.append("".join("-" * abs(width) + " " for _, width in fields))
    for line in lines:
        cells = [FIELDS[name](line) if name in FIELDS else "" for name, _ in fields]
        if parsable:
            out.append(_joined(cells, mark, "parsable" in options))
        else:
            pairs = zip(cells, fields, strict=True)
            out.append("".join(padded(cell, width) + " " for cell, (_, width) in pairs))
    sys.stdout.write("".join(line + "\n" for line in out))


def _joined(cells: list[str], mark: str, ended: bool) -> str:
    return mark.join(cells) + (mark if ended else "")


def padded(text: str, width: int, cut: str = "+") -> str:
    """A text that is too long ends in `+`; a header is cut without."""
    size = abs(width)
    if not size:
        return text
    if len(text) > size:
        text = text[: size - len(cut)] + cut
    return text.ljust(size) if width < 0 else text.rjust(size)
