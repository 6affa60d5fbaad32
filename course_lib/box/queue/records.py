"""What is kept of a job and of a step; one annotation is one column of the state file.

Times are seconds since 1970; 0.0 is "not yet". Environments and arguments are bytes, joined
by NUL, because a file name or a variable need not be UTF-8.
"""

from __future__ import annotations

from course_lib.box.frozen_record import Record
from course_lib.box.settings import UNLIMITED

PENDING, RUNNING = "PENDING", "RUNNING"
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
TIMEOUT, OUT_OF_MEMORY, NODE_FAIL = "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"
FINAL_STATES = (COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL)


class Allocation(Record):
    """What a job holds on one node."""

    node: str
    cpus: tuple[int, ...]
    devices: tuple[int, ...]
    tasks: int


class Job(Record):
    id: int
    kind: str = "batch"
    """`batch` (sbatch), or `srun` for an srun outside of any job: no script, its own steps."""
    name: str = ""
    user: str = ""
    uid: int = 0
    group_name: str = ""
    gid: int = 0
    state: str = PENDING
    completing: int = 0
    """1 from the moment the end is decided until no process is left (COMPLETING, CG)."""
    reason: str = "None"
    partition: str = ""
    account: str = ""
    qos: str = "normal"
    reservation: str = ""
    constraint_text: str = ""
    licenses: str = ""
    comment: str = ""
    wckey: str = ""
    mail_type: str = ""
    mail_user: str = ""
    dependency: str = ""
    nodes_min: int = 1
    nodes_max: int = 1
    nodes_shown: int = 1
    """NumNodes while it waits: at least `nodes_min`, more where its tasks or devices need it."""
    tasks: int = 1
    tasks_given: int = 0
    """1 where -n was asked for (SLURM_NTASKS and SLURM_NPROCS are set only then)."""
    nodes_given: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 0
    """0 where -c was not given; one CPU per task is then allotted."""
    gpus: str = ""
    gpus_per_node: str = ""
    gpus_per_task: str = ""
    gres: str = ""
    cpus_per_gpu: int = 0
    tasks_per_gpu: int = 0
    threads_per_core: int = 0
    cpus_min: int = 0
    """Of --mincpus: CPUs that a node must have to spare."""
    overcommit: int = 0
    memory: str = ""
    memory_per_cpu: str = ""
    memory_per_gpu: str = ""
    exclusive: int = 0
    exclusive_to: str = ""
    """`user` or `mcs`, of --exclusive=…; nobody else is there to share nodes with."""
    oversubscribe: int = 0
    distribution: str = ""
    want_nodes: str = ""
    exclude_nodes: str = ""
    time_limit_min: int = UNLIMITED
    time_least_min: int = 0
    """Of --time-min."""
    submit_s: float = 0.0
    eligible_s: float = 0.0
    begin_s: float = 0.0
    start_s: float = 0.0
    end_s: float = 0.0
    exit_code: int = 0
    exit_signal: int = 0
    cancelled_by: int = -1
    """uid of the scancel; -1 where nobody cancelled."""
    hold: str = ""
    """`user` while held by sbatch -H or scontrol hold, `admin` by scontrol hold of root."""
    priority: int = 0
    """As given by --priority or counted down from the first job; squeue shows it less `nice`."""
    nice: int = 0
    requeue: int = 1
    restarts: int = 0
    earlier_runs: str = ""
    """A line of JSON for each run that ended in a requeue."""
    requeue_asked: str = ""
    """`requeue` or `hold` while a running job is being stopped in order to be queued again."""
    signal_number: int = 0
    signal_before_s: int = 60
    signal_to: str = ""
    """Of --signal: `batch` (B:), or `` for the steps."""
    kill_on_invalid_dependency: int = -1
    work_dir: bytes = b""
    command: bytes = b""
    """Path of the script as scontrol shows it; empty for --wrap and standard input."""
    submit_line: bytes = b""
    script: bytes = b""
    argv: bytes = b""
    """Arguments of the script, each ended by NUL."""
    environment: bytes = b""
    """NAME=value of the submission after --export was applied, each ended by NUL."""
    stdin: bytes = b"/dev/null"
    stdout: bytes = b""
    stderr: bytes = b""
    """Patterns as given (`%j`…); empty stdout is slurm-%j.out (of an array
    slurm-%A_%a.out), empty stderr goes to stdout."""
    open_mode: str = ""
    """`append`, `truncate`, or empty (truncate, also after a requeue)."""
    umask: int = 0o022
    rlimits: bytes = b""
    """NAME=soft lines of the submitting shell (--propagate)."""
    submit_host: str = ""
    submit_session: int = 0
    link_gbit: float = 1.0
    memory_per_device_gib: float = 4.0
    supervisor_pid: int = 0
    supervisor_ticks: int = 0
    batch_host: str = ""
    array_job_id: int = 0
    """Number of the array that it is of; 0: of none."""
    array_task: int = -1
    """-1: the row is no single task of an array."""
    array_waiting: str = ""
    """Tasks that the row stands for as long as they wait together: `1-3,5`."""
    array_asked: str = ""
    """All its tasks, as they were given to --array."""
    array_most: int = 0
    """Tasks of the array that may run at once (`%2`); 0: all."""
    step_options: str = ""
    """Options of the submission that steps inherit, NAME=value joined by newlines."""

    def arguments(self) -> list[bytes]:
        return split(self.argv)

    def variables(self) -> dict[bytes, bytes]:
        pairs = (item.partition(b"=") for item in split(self.environment))
        return {name: value for name, _, value in pairs}


class StepRecord(Record):
    job_id: int
    step: str
    """`batch`, `0`, `1` …"""
    name: str = ""
    state: str = RUNNING
    nodes: str = ""
    node_count: int = 1
    tasks: int = 1
    cpus: int = 1
    devices: int = 0
    time_limit_min: int = UNLIMITED
    start_s: float = 0.0
    end_s: float = 0.0
    cancelled_by: int = -1
    exit_code: int = 0
    exit_signal: int = 0
    max_rss_kib: int = 0
    cpu_s: float = 0.0
    user_cpu_s: float = 0.0
    submit_line: bytes = b""


def join(items: list[bytes]) -> bytes:
    return b"".join(item + b"\0" for item in items)


def split(joined: bytes) -> list[bytes]:
    return joined.split(b"\0")[:-1]


def joined_environment(variables: dict[bytes, bytes]) -> bytes:
    return join([name + b"=" + value for name, value in variables.items()])
