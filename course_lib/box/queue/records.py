"""Records of jobs and steps. One annotation is one column of the state file.

Times are seconds since 1970; 0.0 means "not yet". Environments and arguments are bytes, joined by
NUL, because a file name or a variable need not be UTF-8.
"""

from __future__ import annotations

import os

from course_lib.box.settings import UNLIMITED, Record

PENDING, RUNNING = "PENDING", "RUNNING"
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
TIMEOUT, OUT_OF_MEMORY, NODE_FAIL = "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"
FINAL_STATES = (COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL)


class Allocation(Record):
    """Resources that a job holds on one node."""

    node: str
    cpus: tuple[int, ...]
    devices: tuple[int, ...]
    tasks: int


class Job(Record):
    id: int
    # `batch` (sbatch), or `srun` for an srun outside of a job, which has no script.
    kind: str = "batch"
    name: str = ""
    user: str = ""
    uid: int = 0
    group_name: str = ""
    gid: int = 0
    state: str = PENDING
    # 1 from the decision to end the job until no process is left (COMPLETING, CG).
    completing: int = 0
    reason: str = "None"
    partition: str = ""
    account: str = ""
    qos: str = "normal"
    comment: str = ""
    dependency: str = ""
    nodes_min: int = 1
    # NumNodes while the job waits: at least `nodes_min`, more if its tasks or devices need them.
    nodes_shown: int = 1
    tasks: int = 1
    # 1 if -n was given. SLURM_NTASKS and SLURM_NPROCS are set only then.
    tasks_given: int = 0
    # 1 if -N was given. The job then gets exactly `nodes_min` nodes, otherwise perhaps more.
    nodes_given: int = 0
    tasks_per_node: int = 0
    # 0 if -c was not given. One CPU per task is then allotted.
    cpus_per_task: int = 0
    gpus: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    # Devices per node, from --gres=gpu:2. Slurm sets no variable for them.
    gres: int = 0
    memory: str = ""
    memory_per_cpu: str = ""
    exclusive: int = 0
    distribution: str = ""
    want_nodes: str = ""
    exclude_nodes: str = ""
    time_limit_min: int = UNLIMITED
    submit_s: float = 0.0
    begin_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    exit_code: int = 0
    exit_signal: int = 0
    # uid of the user who ran scancel; -1 if the job was not cancelled.
    cancelled_by: int = -1
    # `user` for a hold by sbatch -H or scontrol hold, `admin` for a hold by root.
    hold: str = ""
    # Counted down from the first job.
    priority: int = 0
    requeue: int = 1
    restarts: int = 0
    # 1 while a running job is being stopped to be queued again.
    requeue_asked: int = 0
    signal_number: int = 0
    signal_before_s: int = 60
    # Target of --signal: `batch` (B:), or `` for the steps.
    signal_to: str = ""
    work_dir: bytes = b""
    # Path of the script as scontrol shows it; empty for --wrap and standard input.
    command: bytes = b""
    script: bytes = b""
    # Arguments of the script, each ended by NUL.
    argv: bytes = b""
    # NAME=value of the submission after --export was applied, each ended by NUL.
    environment: bytes = b""
    stdin: bytes = b"/dev/null"
    stdout: bytes = b""
    # Patterns as given (`%j`…). Empty stdout means slurm-%j.out (slurm-%A_%a.out for an array).
    # Empty stderr goes to stdout.
    stderr: bytes = b""
    # `append`, `truncate`, or empty (truncate, even after a requeue).
    open_mode: str = ""
    umask: int = 0o022
    submit_host: str = ""
    submit_session: int = 0
    link_gbit: float = 1.0
    memory_per_device_gib: float = 4.0
    supervisor_pid: int = 0
    supervisor_ticks: int = 0
    batch_host: str = ""
    # Number of the job's array; 0 if the job is not part of an array.
    array_job_id: int = 0
    # -1 if the row is not a single task of an array.
    array_task: int = -1
    # Waiting tasks that the row stands for: `1-3,5`.
    array_waiting: str = ""
    # All tasks of the array, as given to --array.
    array_asked: str = ""
    # Number of tasks of the array that may run at once (`%2`); 0 means all.
    array_most: int = 0

    def arguments(self) -> list[bytes]:
        return split(self.argv)

    def variables(self) -> dict[bytes, bytes]:
        pairs = (item.partition(b"=") for item in split(self.environment))
        return {name: value for name, _, value in pairs}


class StepRecord(Record):
    job_id: int
    # `batch`, `0`, `1` …
    step: str
    name: str = ""
    state: str = RUNNING
    nodes: str = ""
    node_count: int = 1
    tasks: int = 1
    cpus: int = 1
    devices: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    cancelled_by: int = -1
    exit_code: int = 0
    exit_signal: int = 0
    max_rss_kib: int = 0
    cpu_s: float = 0.0


def join(items: list[bytes]) -> bytes:
    return b"".join(item + b"\0" for item in items)


def split(joined: bytes) -> list[bytes]:
    return joined.split(b"\0")[:-1]


def joined_environment(variables: dict[bytes, bytes]) -> bytes:
    return join([name + b"=" + value for name, value in variables.items()])


def exported(choice: str, own: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that --export passes on: all, Slurm's, or named ones."""
    parts = [part for part in os.fsencode(choice).split(b",") if part and part != b"NONE"]
    everything = not choice or any(part.upper() == b"ALL" for part in parts)
    found = {name: text for name, text in own.items() if everything or name.startswith(b"SLURM_")}
    for part in parts:
        name, equals, text = part.partition(b"=")
        if equals:
            found[name] = text
        elif name in own:
            found[name] = own[name]
    return found
