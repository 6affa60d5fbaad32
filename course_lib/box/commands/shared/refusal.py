"""Which jobs are refused at submission because they could never run, in the words of Slurm."""

from __future__ import annotations

from course_lib.box import settings
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.queue.records import Job
from course_lib.box.scheduling import dependency, empty_box, job_placement
from course_lib.box.settings import UNLIMITED

NOT_AVAILABLE = "Requested node configuration is not available"
WITHOUT_PLACES = (
    "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option"
)
LONGEST = 1024
"""Bytes of a name or comment."""
INVALID_DEVICES = "Invalid generic resource (gres) specification"


class Refused(Exception):
    """The words of the controller, and a remark that it makes before."""

    def __init__(self, why: str, remark: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remark = remark


def check_client(job: Job) -> None:
    """What the command itself refuses, before the controller is asked."""
    if job.tasks_per_gpu and job.gpus_per_task:
        others = "--ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
        raise Failure(f"--gpus-per-task is mutually exclusive with {others}", fatal=True)
    memories = [text for text in (job.memory, job.memory_per_cpu, job.memory_per_gpu) if text]
    if len(memories) > 1:
        words = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise Failure(words, fatal=True)
    if job.nodes_given and job.want_nodes and len(job.want_nodes.split(",")) > job.nodes_max:
        named = len(job.want_nodes.split(","))
        raise Failure(f"invalid number of nodes (-N {named}-{job.nodes_max})")
    if "arbitrary" in job.distribution.partition(":")[0] and not job.want_nodes:
        raise Failure(WITHOUT_PLACES)
    for why in (_wrong_per_node(job), _wrong_per_task(job)):
        if why:
            raise Failure(why, INVALID_DEVICES)
    names = [piece.removeprefix("gres:").split(":")[0] for piece in job.gres.split(",") if piece]
    if not {*names} <= {"gpu", "none"}:
        raise Failure(INVALID_DEVICES)


def _wrong_per_node(job: Job) -> str:
    """What is wrong with the devices of all nodes and of one; Slurm's order and words."""
    total, per_node, _ = job_placement.devices_wanted(job)
    if not total:
        return ""
    if total < per_node:
        return "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"
    if per_node and total % per_node:
        return "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node"
    if per_node and job.nodes_given:
        needed = total // per_node
        if not job.nodes_min <= needed <= job.nodes_max:
            return (
                "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node"
                f" required nodes ({needed}) doesn't fall between min_nodes ({job.nodes_min})"
                f" and max_nodes ({job.nodes_max}) boundaries."
            )
    if total < job.nodes_min and job.nodes_given:
        return "Failed to validate job spec, --gpus < -N"
    return ""


def _wrong_per_task(job: Job) -> str:
    total, per_node, per_task = job_placement.devices_wanted(job)
    if job.tasks_per_gpu and not (total or per_node or job.nodes_given or job.tasks_given):
        return (
            "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a"
            " node/ntask specification"
        )
    if job.gpus_per_task and not (job.gpus or job.tasks_given or job.tasks_per_node):
        return (
            "Failed to validate job spec. --gpus-per-task used without either --gpus or"
            " -n/--ntasks is not allowed."
        )
    if not total or not per_task:
        return ""
    if total % per_task:
        return "Failed to validate job spec, --gpus not multiple of --gpus-per-task"
    if job.tasks_given and job.tasks != total // per_task:
        return (
            "Failed to validate job spec. Based on --gpus and --gpus-per-task number of"
            " requested tasks differ from -n/--ntasks."
        )
    return ""


def check_names(job: Job, box: settings.Settings) -> None:
    """Partition, nodes, features and the like that this box does not have."""
    if any(
        len(text.encode(errors="replace")) > LONGEST
        for text in (job.name, job.comment, job.account)
    ):
        raise Refused("Pathname of a file, directory or other parameter too long")
    for name in job.partition.split(","):
        if name not in box.partition_names:
            raise Refused(
                "Invalid partition name specified",
                f"invalid partition specified: {name or '(null)'}",
            )
    wanted = [name for name in job.want_nodes.split(",") if name]
    excluded = [name for name in job.exclude_nodes.split(",") if name]
    unknown = (set(wanted) | set(excluded)) - set(box.node_names)
    if unknown or set(wanted) & set(excluded):
        raise Refused("Invalid node name specified")
    if job.constraint_text and box.features != "any":
        for feature in job.constraint_text.replace("|", "&").replace(",", "&").split("&"):
            if feature.strip("[]()").partition("*")[0] not in box.features.split(","):
                raise Refused("Invalid feature specification")
    if job.reservation and box.reservations != "any":
        raise Refused("Requested reservation is invalid")
    if not all(map(job_placement.is_count, (job.gpus, job.gpus_per_node, job.gpus_per_task))):
        raise Refused("Invalid Trackable RESource (TRES) specification")
    if job.licenses:
        raise Refused("Invalid license specification")
    try:
        if job.dependency:
            dependency.parse(job.dependency)
    except dependency.DependencyError as error:
        raise Refused(str(error)) from None


def check_limits(job: Job, box: settings.Settings) -> None:
    """The limits of the partition, also for a held job."""
    most = box.max_time_min
    if most is not None and not 0 <= job.time_limit_min <= most:
        raise Refused("Requested time limit is invalid (missing or exceeds some limit)")
    if job.time_limit_min != UNLIMITED and job.time_least_min > job.time_limit_min:
        raise Refused("Invalid time-min specification (exceeds job's time or other limits)")
    total, per_node, _ = job_placement.devices_wanted(job)
    least = max(job.nodes_min, total // per_node if total and per_node else 0)
    if least > box.nodes or (job.nodes_min < 1 and not job.hold):
        raise Refused("Node count specification invalid")
    if job.tasks * max(job.cpus_per_task, 1) > box.nodes * box.cpus_per_node and not job.overcommit:
        raise Refused("More processors requested than permitted")


def check_fit(job: Job, box: settings.Settings) -> int:
    """Number of nodes it would get on the empty box; a held job is not asked this."""
    try:
        return len(empty_box.place(job, box))
    except empty_box.NeverFits as never:
        raise Refused(NOT_AVAILABLE, str(never)) from None


def check_controller(job: Job, box: settings.Settings, test_only: bool = False) -> int:
    """Everything the controller looks at; number of nodes that the job shows while it waits.

    Whether a held job fits is asked when it is released, and by --test-only."""
    check_names(job, box)
    check_limits(job, box)
    cpus = max(job.cpus_per_task, 1)
    by_cpus = -(-job.tasks * cpus // box.cpus_per_node) if job.tasks_given and job.tasks > 1 else 1
    by_tasks = -(-job.tasks // job.tasks_per_node) if job.tasks_per_node else 1
    least = job.nodes_min
    if not job.nodes_given:
        least = min(max(least, by_cpus, by_tasks), box.nodes)
    return least if job.hold and not test_only else max(least, check_fit(job, box))
