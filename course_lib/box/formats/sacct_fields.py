"""The fields of sacct: width, and content for a job and for a step.

A negative width puts the text to the left. A field that the box has no number for is empty,
as it is on a Slurm that does not gather it.
"""

from __future__ import annotations

import os

from course_lib.box.formats import times
from course_lib.box.formats.job_view import JobView
from course_lib.box.formats.squeue_fields import units
from course_lib.box.queue.records import CANCELLED, FAILED, TIMEOUT, StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from course_lib.box.settings import Settings

WIDTHS = """
Account 10|AdminComment 15|AllocCPUS 10|AllocNodes 10|AllocTRES 10|AssocID 7|AveCPU 10
AveCPUFreq 10|AveDiskRead 14|AveDiskWrite 14|AvePages 10|AveRSS 10|AveVMSize 10|BlockID 16
Cluster 10|Comment 14|Constraints 19|ConsumedEnergy 14|ConsumedEnergyRaw 17|Container 19
CPUTime 10|CPUTimeRAW 10|DBIndex 0|DerivedExitCode 15|Elapsed 10|ElapsedRaw 10|Eligible 19
End 19|ExitCode 8|Flags 19|GID 6|Group 9|JobID -12|JobIDRaw -12|JobName 10|Layout 9
MaxDiskRead 12|MaxDiskReadNode 15|MaxDiskReadTask 15|MaxDiskWrite 12|MaxDiskWriteNode 16
MaxDiskWriteTask 16|MaxPages 8|MaxPagesNode 12|MaxPagesTask 14|MaxRSS 10|MaxRSSNode 10
MaxRSSTask 10|MaxVMSize 10|MaxVMSizeNode 14|MaxVMSizeTask 14|McsLabel 12|MinCPU 10|MinCPUNode 10
MinCPUTask 10|NCPUS 10|NNodes 8|NodeList 15|NTasks 8|Partition 10|Priority 10|QOS 10|QOSRAW 6
Reason 22|ReqCPUFreq 10|ReqCPUFreqGov 13|ReqCPUFreqMax 13|ReqCPUFreqMin 13|ReqCPUS 8|ReqMem 10
ReqNodes 8|ReqTRES 10|Reservation 20|ReservationId 8|Reserved 10|ResvCPU 10|ResvCPURAW 10
Start 19|State 10|Submit 19|SubmitLine 20|Suspended 10|SystemComment 15|SystemCPU 10|Timelimit 10
TimelimitRaw 10|TotalCPU 10|TRESUsageInAve 14|TRESUsageInMax 14|TRESUsageInMaxNode 18
TRESUsageInMaxTask 18|TRESUsageInMin 14|TRESUsageInMinNode 18|TRESUsageInMinTask 18
TRESUsageInTot 14|TRESUsageOutAve 15|TRESUsageOutMax 15|TRESUsageOutMaxNode 19
TRESUsageOutMaxTask 19|TRESUsageOutMin 15|TRESUsageOutMinNode 19|TRESUsageOutMinTask 19
TRESUsageOutTot 15|UID 6|User 9|UserCPU 10|WCKey 10|WCKeyID 10|WorkDir 20
"""
NAMES: list[str] = []
WIDTH: dict[str, int] = {}
for _entry in WIDTHS.replace("\n", "|").split("|"):
    if _entry:
        _name, _, _width = _entry.partition(" ")
        NAMES.append(_name)
        WIDTH[_name] = int(_width)


class AccountingLine:
    """A job, or one of its steps, as one line of sacct."""

    def __init__(
        self, view: JobView, step: StepRecord | None, steps: list[StepRecord], box: Settings
    ) -> None:
        self.view = view
        self.job = view.job
        self.step = step
        self.steps = steps
        self.box = box

    @property
    def start_s(self) -> float:
        return self.step.start_s if self.step else self.job.start_s

    @property
    def end_s(self) -> float:
        return self.step.end_s if self.step else self.job.end_s

    @property
    def elapsed_s(self) -> int:
        if not self.start_s:
            return 0
        return int(max((self.end_s or self.view.now_s) - self.start_s, 0))

    @property
    def cpus(self) -> int:
        if self.step:
            return self.step.cpus
        return self.view.cpus

    @property
    def state(self) -> str:
        if self.step:
            return self._step_state(self.step)
        if self.job.state == CANCELLED and self.job.cancelled_by >= 0:
            return f"CANCELLED by {self.job.cancelled_by}"
        return self.job.state

    @staticmethod
    def _step_state(step: StepRecord) -> str:
        if step.cancelled_by >= 0 and step.end_s:
            return f"CANCELLED by {step.cancelled_by}"
        return CANCELLED if step.state == FAILED and step.exit_signal else step.state

    @property
    def cpu_s(self) -> float:
        return self.step.cpu_s if self.step else sum(step.cpu_s for step in self.steps)

    @property
    def user_cpu_s(self) -> float:
        return self.step.user_cpu_s if self.step else sum(step.user_cpu_s for step in self.steps)


def both(value: Callable[[AccountingLine], str]) -> Callable[[AccountingLine], str]:
    return value


def of_job(value: Callable[[AccountingLine], str]) -> Callable[[AccountingLine], str]:
    return lambda line: "" if line.step else value(line)


def of_step(
    value: Callable[[StepRecord], str], *, batch: bool = True
) -> Callable[[AccountingLine], str]:
    def content(line: AccountingLine) -> str:
        step = line.step
        return value(step) if step and (batch or step.step != "batch") else ""

    return content


def exit_code(line: AccountingLine) -> str:
    """Accounting hears of a cancelled or timed out job before its script has ended."""
    if not line.step and line.job.state in (CANCELLED, TIMEOUT):
        return "0:0"
    source = line.step or line.job
    code = source.exit_code - 128 if source.exit_code > 128 else source.exit_code
    return f"{code}:{source.exit_signal}"


def derived(line: AccountingLine) -> str:
    codes = [step.exit_code for step in line.steps if step.step != "batch"]
    return f"{max(codes, default=0)}:0"


def cpu_time(seconds: float) -> str:
    """00:00.014 below an hour, else with hours; 00:00:00 where it is nothing."""
    if seconds <= 0:
        return "00:00:00"
    days, hours, minutes, secs = times.parts(int(seconds))
    if days or hours:
        return times.full(seconds)
    return f"{minutes:02}:{secs:02}.{int(seconds * 1000) % 1000:03}"


def numbered(job: str, line: AccountingLine) -> str:
    return f"{job}.{line.step.step}" if line.step else job


def node_list(line: AccountingLine) -> str:
    if line.step:
        return line.step.nodes
    return line.view.nodes or "None assigned"


def alloc_tres(line: AccountingLine) -> str:
    step, view = line.step, line.view
    if step:
        device = f",gres/gpu={step.devices}" if step.devices else ""
        return f"cpu={step.cpus}{device},mem=0,node={step.node_count}"
    if not view.parts:
        return ""
    device = f",gres/gpu={view.devices}" if view.devices else ""
    return f"billing={view.cpus},cpu={view.cpus}{device},node={view.node_count}"


def requested_tres(line: AccountingLine) -> str:
    view = line.view
    device = f",gres/gpu={view.devices}" if view.devices else ""
    return (
        f"billing={view.cpus},cpu={view.cpus}{device},mem={requested_memory(line)},"
        f"node={view.node_count}"
    )


def requested_memory(line: AccountingLine) -> str:
    job, view = line.job, line.view
    if job.memory_per_cpu:
        return units(int(job.memory_per_cpu) * view.cpus)
    return units((int(job.memory or 0) or line.box.memory_per_node_mib) * view.node_count)


def kib(value: int) -> str:
    return f"{value}K" if value else "0"


FIELDS: dict[str, Callable[[AccountingLine], str]] = {
    "Account": both(lambda x: x.job.account),
    "AllocCPUS": both(lambda x: str(x.cpus)),
    "AllocNodes": both(lambda x: str(x.step.node_count if x.step else len(x.view.parts))),
    "AllocTRES": both(alloc_tres),
    "AveCPU": of_step(lambda s: times.full(s.cpu_s / max(s.tasks, 1)), batch=False),
    "AveRSS": of_step(lambda s: kib(s.max_rss_kib), batch=False),
    "Cluster": both(lambda x: x.box.cluster),
    "Constraints": of_job(lambda x: x.job.constraint_text),
    "CPUTime": both(lambda x: times.full(x.elapsed_s * x.cpus)),
    "CPUTimeRAW": both(lambda x: str(x.elapsed_s * x.cpus)),
    "DerivedExitCode": of_job(derived),
    "Elapsed": both(lambda x: times.full(x.elapsed_s)),
    "ElapsedRaw": both(lambda x: str(x.elapsed_s)),
    "Eligible": both(lambda x: times.stamp(x.job.eligible_s, "Unknown")),
    "End": both(lambda x: times.stamp(x.end_s, "Unknown")),
    "ExitCode": both(exit_code),
    "Flags": of_job(lambda x: "SchedMain,StartRecieved" if x.view.parts else ""),
    "GID": of_job(lambda x: str(x.job.gid)),
    "Group": of_job(lambda x: x.job.group_name),
    "JobID": both(lambda x: numbered(x.view.shown_id, x)),
    "JobIDRaw": both(lambda x: numbered(str(x.job.id), x)),
    "JobName": both(lambda x: x.step.name if x.step else x.job.name),
    "Layout": of_step(lambda s: "Unknown" if s.step == "batch" else "Block"),
    "MaxRSS": of_step(lambda s: kib(s.max_rss_kib), batch=False),
    "NCPUS": both(lambda x: str(x.cpus)),
    "NNodes": both(lambda x: str(x.step.node_count if x.step else x.view.node_count)),
    "NodeList": both(node_list),
    "NTasks": of_step(lambda s: str(s.tasks)),
    "Partition": of_job(lambda x: x.job.partition),
    "Priority": of_job(lambda x: str(x.job.priority)),
    "QOS": of_job(lambda x: x.job.qos),
    "Reason": of_job(lambda x: x.job.reason if not x.job.start_s else "None"),
    "ReqCPUS": both(lambda x: str(x.step.cpus if x.step else x.view.cpus)),
    "ReqMem": of_job(requested_memory),
    "ReqNodes": both(lambda x: str(x.step.node_count if x.step else x.view.node_count)),
    "ReqTRES": of_job(requested_tres),
    "Reservation": of_job(lambda x: x.job.reservation),
    "Reserved": of_job(lambda x: times.full((x.start_s or x.view.now_s) - x.job.submit_s)),
    "Start": both(lambda x: times.stamp(x.start_s, "Unknown")),
    "State": both(lambda x: x.state),
    "Submit": both(lambda x: times.stamp(x.start_s if x.step else x.job.submit_s, "Unknown")),
    "SubmitLine": both(lambda x: os.fsdecode((x.step or x.job).submit_line)),
    "Suspended": both(lambda x: "00:00:00"),
    "SystemCPU": both(lambda x: cpu_time(x.cpu_s - x.user_cpu_s)),
    "Timelimit": of_job(lambda x: times.limit_full(x.job.time_limit_min)),
    "TimelimitRaw": of_job(
        lambda x: "UNLIMITED" if x.job.time_limit_min < 0 else str(x.job.time_limit_min)
    ),
    "TotalCPU": both(lambda x: cpu_time(x.cpu_s)),
    "UID": of_job(lambda x: str(x.job.uid)),
    "User": of_job(lambda x: x.job.user),
    "UserCPU": both(lambda x: cpu_time(x.user_cpu_s)),
    "WCKey": both(lambda x: x.job.wckey),
    "WorkDir": of_job(lambda x: os.fsdecode(x.job.work_dir)),
}
