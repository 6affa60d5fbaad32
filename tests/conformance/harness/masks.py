"""Remove from a transcript the parts that differ between runs: ids, times, paths, addresses."""

from __future__ import annotations

import re
import socket

# Both clusters count their jobs from 700001 on, so that an id is found in any text.
JOB_ID = re.compile(r"(?<![1-9.:])70\d{4}(?!\d)")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
LONG_HEADER = re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b")
ELAPSED_LONG = re.compile(r"(?<![-\d:])(?<!TimeLimit=)00:0[01]:\d\d\b")
ELAPSED_SHORT = re.compile(r"(?<![\d:.-])[01]:\d\d(?![\d:])")
# Whether a step or job has to wait for the one before to be tidied away, or a signal comes too
# late, is a matter of milliseconds.
WAITS = re.compile(
    r"^(?:! |  )?srun: (Job \S+ step creation (temporarily disabled|still disabled), retrying.*"
    r"|Step created for job \S+)\n"
    r"|^  slurmstepd: error: _handle_signal_container: failed signal .*\n"
    r"|^! salloc: Job allocation \S+ has been revoked\.\n"
    r"|^! srun: job \S+ (queued and waiting for|has been allocated) resources\n",
    re.MULTILINE,
)
# What the box says about itself where the machine gives it no namespaces.
FLAT_NOTE = re.compile(r"(^(! |  ))?sinfo: note: flat mode: .*\n", re.MULTILINE)
# The C library's own signal 32: ignored or not as in the shell that started the daemons.
OWN_SIGNAL = re.compile(r"(SigIgn:\s+0{8})80000000")
SHORT_TIME_COMMANDS = ("squeue", "sinfo")

# Several slurmd on one machine add the node to the name; with one on each it is plain.
STEPD = re.compile(r"\bslurmstepd-node\d\b")
# A job runs a copy of its script, which lies somewhere on the node.
# Variables of a job whose value says something about this run or this machine.
SCRIPT = re.compile(r"/[^ ():]*/slurm_script\b")
# The box gives each job a folder for temporary files, as a site with job_container/tmpfs does.
PRIVATE_TMP = re.compile(r"<state>/jobs/\d+/tmp\b")
OWN_VALUE = re.compile(
    r"\b(SLURM_(?:TASK_PID|SRUN_COMM_HOST|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|LAUNCH_NODE_IPADDR"
    r"|WORKING_CLUSTER|SUBMIT_HOST|CONF)|SLURMD_DEBUG|HOSTNAME_OF_MACHINE)=\S*"
)
FIELDS = re.compile(
    r"\b(Priority|FreeMem|CPULoad|NodeAddr|Version|OS|BootTime|SlurmdStartTime|LastBusyTime"
    r"|AllocNode:Sid|SrunHost:Pid|BOOT_TIME|NEXT_JOB_ID)=(?:Linux .*|\S+)"
)


def mask(text: str, paths: dict[str, str]) -> str:
    """Mask a transcript. `paths` has a word for each folder of the run; longer folders go first."""
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, paths[path])
    text = PRIVATE_TMP.sub("/tmp", text)
    text = STEPD.sub("slurmstepd", text)
    text = WAITS.sub("", text)  # before ids are counted: its line may be the only one with an id
    text = FLAT_NOTE.sub("", text)
    for number, job_id in enumerate(sorted(set(JOB_ID.findall(text))), start=1):
        text = mask_id(text, job_id, f"J{number}")
    text = MOMENT.sub("YYYY-MM-DDThh:mm:ss", text)
    text = LONG_HEADER.sub("Www Mmm dd hh:mm:ss YYYY", text)
    text = OWN_SIGNAL.sub(r"\g<1>00000000", text)
    text = SCRIPT.sub("<script>", text)
    text = OWN_VALUE.sub(r"\1=<own>", text)
    text = FIELDS.sub(r"\1=<own>", text)
    text = ELAPSED_LONG.sub("00:0m:ss", text)
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "<host>", text)
    return "\n".join(short_times(text.split("\n"))) + "\n"


def mask_id(text: str, job_id: str, word: str) -> str:
    """Mask an id, and keep the columns: if an id becomes shorter, more blanks follow it."""
    text = re.sub(
        rf"(  +){job_id}\b", lambda found: word.rjust(len(found[0])), text, flags=re.ASCII
    )
    text = re.sub(
        rf"\b{job_id}([.\w]*)(  +)",
        lambda found: f"{word}{found[1]}".ljust(len(found[0])),
        text,
        flags=re.ASCII,
    )
    return re.sub(rf"{job_id}(?!\d)", word, text)


def short_times(lines: list[str]) -> list[str]:
    """Mask elapsed times such as `0:07`, only in the output of these commands. Elsewhere `0:15` is
    an exit code and a signal."""
    masked, inside = [], False
    for line in lines:
        if not line.startswith(("  ", "! ")):
            inside = line.startswith("$ ") and line[2:].split()[:1][0] in SHORT_TIME_COMMANDS
        masked.append(ELAPSED_SHORT.sub("m:ss", line) if inside else line)
    return masked
