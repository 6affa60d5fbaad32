"""The variables that a script, a step and the shell of salloc have alike: of the job itself."""

from __future__ import annotations

from course_lib.box import settings
from course_lib.box.hostlist import compress
from course_lib.box.queue import arrays
from course_lib.box.queue.records import Allocation, Job

Variables = dict[str, str]


def job_and_nodes(job: Job, parts: list[Allocation], cluster: str) -> Variables:
    """Which job this is, where it was submitted to, and what it was given."""
    nodes = compress([part.node for part in parts])
    given = {
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_QOS": job.qos,
        "SLURM_JOB_RESERVATION": job.reservation,
    }
    return {
        "COURSE_BOX_HOME": settings.state_home(),
        "SLURM_CLUSTER_NAME": cluster,
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_CPUS_PER_NODE": repeated([len(part.cpus) for part in parts]),
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": job.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(parts)),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_NODELIST": nodes,
        **{name: text for name, text in given.items() if text},
    }


def array_variables(job: Job) -> Variables:
    if not job.array_job_id:
        return {}
    found = {f"TASK_{name}": number for name, number in arrays.described(job.array_asked).items()}
    found |= {"JOB_ID": job.array_job_id, "TASK_ID": job.array_task}
    return {f"SLURM_ARRAY_{name}": str(number) for name, number in found.items()}


def repeated(counts: list[int]) -> str:
    """`2(x2),1`, as Slurm writes a number per node."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


def spread_over_nodes(distribution: str) -> Variables:
    """Of --distribution; nothing where it is empty."""
    kind, _, size = distribution.lower().partition("=")
    found = {"SLURM_DISTRIBUTION": kind, "SLURM_DIST_PLANESIZE": size}
    return {name: text for name, text in found.items() if text}


def asked_for(job: Job) -> Variables:
    """What the options of the submission put into the environment of a script or shell."""
    found = {
        "SLURM_CPUS_PER_TASK": str(job.cpus_per_task) if job.cpus_per_task else "",
        "SLURM_GPUS": job.gpus,
        "SLURM_GPUS_PER_NODE": job.gpus_per_node,
        "SLURM_GPUS_PER_TASK": job.gpus_per_task,
        **spread_over_nodes(job.distribution),
        "SLURM_MEM_PER_NODE": job.memory if job.memory != "0" else "",
        "SLURM_MEM_PER_CPU": job.memory_per_cpu,
        "SLURM_MEM_PER_GPU": job.memory_per_gpu,
        "SLURM_OVERCOMMIT": "1" if job.overcommit else "",
    }
    if job.tasks_given or job.tasks_per_node:
        found |= {"SLURM_NTASKS": str(job.tasks), "SLURM_NPROCS": str(job.tasks)}
    if job.tasks_per_node:
        found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
    if job.tasks_per_gpu:
        found["SLURM_NTASKS_PER_GPU"] = str(job.tasks_per_gpu)
    return {name: text for name, text in found.items() if text}
