"""What srun was asked for, as steps are started from it."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.shared import option_values as read
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.submit.job_fields import Fields
from course_lib.box.commands.submit.option_sources import Gathered
from course_lib.box.frozen_record import Record

LETTER, PREFIX = "r", "SLURM_"
VARIABLES = {
    "chdir": ("SLURM_REMOTE_CWD", "SLURM_WORKING_DIR"),
    "cpus-per-task": ("SRUN_CPUS_PER_TASK",),
    "error": ("SLURM_STDERRMODE",),
    "export": ("SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV"),
    "input": ("SLURM_STDINMODE",),
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NPROCS", "SLURM_NTASKS"),
    "ntasks-per-gpu": ("SLURM_NTASKS_PER_GPU",),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "output": ("SLURM_STDOUTMODE",),
    "time": ("SLURM_TIMELIMIT",),
    "wait": ("SLURM_WAIT",),
}
"""Variables whose name does not follow from the option's; a later one wins."""
ONLY_OUTSIDE = ("job-name", "cpus-per-task")
"""Options that a step of a job does not take from SLURM_JOB_NAME and SLURM_CPUS_PER_TASK."""


class SrunOptions(Record):
    """None and empty are "not given"; numbers in MiB and minutes as in a job."""

    command: list[str]
    submit_line: str
    environment: dict[bytes, bytes]
    nodes_min: int | None = None
    nodes_max: int | None = None
    nodes_given_here: bool = False
    """On the command line, not through a variable of the job."""
    tasks_given_here: bool = False
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    threads_per_core: int | None = None
    nodelist: str = ""
    exclude: str = ""
    relative: int | None = None
    distribution: str = ""
    label: bool = False
    unbuffered: bool = False
    kill_on_bad_exit: bool | None = None
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    output: str = ""
    error: str = ""
    input: str = ""
    open_mode: str = ""
    chdir: str = ""
    export: str = ""
    time_min: int | None = None
    wait_s: int | None = None
    job_name: str = ""
    jobid: int | None = None
    gpus: str = ""
    gpus_per_node: str = ""
    gpus_per_task: str = ""
    gres: str = ""
    tasks_per_gpu: int | None = None
    memory: str = ""
    memory_per_cpu: str = ""
    memory_per_gpu: str = ""
    signal: str = ""
    mpi: str = ""
    gpu_bind: str = ""
    cpu_bind: str = ""
    propagate: str | None = None
    immediate_s: int | None = None
    preserve_env: bool = False
    pty: bool = False
    quiet: int = 0
    verbose: int = 0

    def with_submission(self) -> SrunOptions:
        """As if sbatch had been here: where and on which host the job was asked for."""
        added = {
            b"SLURM_SUBMIT_DIR": os.getcwdb(),
            b"SLURM_SUBMIT_HOST": os.fsencode(os.uname().nodename.partition(".")[0]),
        }
        values = {name: getattr(self, name) for name in self.fields()}
        return SrunOptions(**{**values, "environment": {**self.environment, **added}})


def gather(arguments: list[str]) -> tuple[Gathered, list[str]]:
    """Variables first, then the command line; with -E the variables of the job win."""
    gathered = Gathered("srun", LETTER, PREFIX)
    pairs, command = gathered.syntax.parse(arguments)
    inside = "SLURM_JOB_ID" in os.environ
    gathered.apply_environment(skip=ONLY_OUTSIDE if inside else ("cpus-per-task",))
    _apply_special(gathered)
    _apply_plane(gathered)
    names = [name for name, _ in pairs]
    preserved = {"nodes", "ntasks"} if "preserve-env" in names else set()
    kept = [
        (name, value)
        for name, value in pairs
        if not (name in preserved and gathered.sources.get(name) == "environment")
    ]
    gathered.apply(kept, "command line")
    if "verbose" in gathered.given and "quiet" in gathered.given:
        raise Failure("don't specify both --verbose (-v) and --quiet (-Q)")
    return gathered, command


def _apply_special(gathered: Gathered) -> None:
    for option, names in VARIABLES.items():
        for name in names:
            value = os.environ.get(name)
            if value:
                gathered.apply([(option, value)], "environment")


def _apply_plane(gathered: Gathered) -> None:
    """A job tells its steps the size of a plane apart from the word."""
    size = os.environ.get("SLURM_DIST_PLANESIZE", "")
    if size and gathered.given.get("distribution") == "plane":
        gathered.apply([("distribution", f"plane={size}")], "environment")


def build(gathered: Gathered, command: list[str], submit_line: str) -> SrunOptions:
    mpi = gathered.given.get("mpi", "")
    if mpi not in ("", "none"):
        if gathered.sources["mpi"] != "environment":
            raise Unsupported(f"--mpi={mpi}", "Leave it out: torch.distributed needs none.")
        gathered.say_left_aside("mpi", mpi, "the box has no MPI, and torch.distributed needs none")
        gathered.given["mpi"] = ""
    _check_binding(gathered.given.get("cpu-bind", ""))
    if gathered.given.get("gpus-per-task") and gathered.given.get("ntasks-per-gpu"):
        by_variable = gathered.sources["gpus-per-task"] == "environment"
        one = "SLURM_GPUS_PER_TASK" if by_variable else "--gpus-per-task"
        others = "--ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
        raise Failure(f"{one} is mutually exclusive with {others}", fatal=True)
    return SrunOptions(
        command=command,
        submit_line=submit_line,
        environment=dict(os.environb),
        nodes_given_here=gathered.sources.get("nodes") == "command line",
        tasks_given_here=gathered.sources.get("ntasks") == "command line",
        **_read_as_for_a_job(gathered.fields),
        **_numbers(gathered.given),
        **_switches(gathered),
        **{name: gathered.given.get(name.replace("_", "-"), "") for name in TEXTS},
    )


def _read_as_for_a_job(fields: Fields) -> Fields:
    numbers = {
        "nodes_min": "nodes_min",
        "nodes_max": "nodes_max",
        "ntasks": "tasks",
        "ntasks_per_node": "tasks_per_node",
        "cpus_per_task": "cpus_per_task",
        "threads_per_core": "threads_per_core",
        "tasks_per_gpu": "tasks_per_gpu",
        "time_min": "time_limit_min",
    }
    texts = {
        "nodelist": "want_nodes",
        "exclude": "exclude_nodes",
        "open_mode": "open_mode",
        "memory": "memory",
        "memory_per_cpu": "memory_per_cpu",
        "memory_per_gpu": "memory_per_gpu",
    }
    found: Fields = {own: int(str(fields[name])) for own, name in numbers.items() if name in fields}
    return found | {own: str(fields.get(name, "")) for own, name in texts.items()}


def _numbers(given: dict[str, str]) -> Fields:
    def count(name: str) -> int | None:
        return read.number(given[name], name, 0) if given.get(name) else None

    kill = given.get("kill-on-bad-exit")
    return {
        "relative": count("relative"),
        "wait_s": count("wait"),
        "jobid": count("jobid"),
        "kill_on_bad_exit": None if kill is None else bool(count("kill-on-bad-exit") or not kill),
        "immediate_s": (count("immediate") or 0) if "immediate" in given else None,
        "quiet": int(given.get("quiet", "0") or 0),
        "verbose": int(given.get("verbose", "0") or 0),
    }


def _switches(gathered: Gathered) -> Fields:
    given = gathered.given
    whole_node = "jobid" not in given and "ntasks" not in given
    return {
        "exact": "exact" in given or ("exclusive" in given and not whole_node),
        "propagate": given.get("propagate"),
        **{name: name.replace("_", "-") in given for name in SWITCHES},
    }


def _check_binding(text: str) -> None:
    for word in text.split(","):
        if word and word.partition(":")[0].lower() not in BINDINGS:
            print(f'srun: error: unrecognized --cpu-bind argument "{word}"', file=sys.stderr)
            raise Failure("Failed to parse --cpu-bind= values.", fatal=True)


BINDINGS = (
    *("none", "no", "yes", "rank", "rank_ldom", "map_cpu", "mask_cpu", "map_ldom", "mask_ldom"),
    *("sockets", "cores", "threads", "ldoms", "boards", "quiet", "q", "verbose", "v", "help"),
)
SWITCHES = ("label", "unbuffered", "overlap", "overcommit", "preserve_env", "pty")
TEXTS = (
    *("distribution", "output", "error", "input", "chdir", "export", "job_name", "signal"),
    *("mpi", "gpus", "gpus_per_node", "gpus_per_task", "gres", "gpu_bind", "cpu_bind"),
)
