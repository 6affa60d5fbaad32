"""The variables that Slurm 22.05 gives to a batch script and to the tasks of a step."""

from __future__ import annotations

import os
import re

from course_lib.box import settings
from course_lib.box.hostlist import compress
from course_lib.box.nodes.namespaces import address
from course_lib.box.processes import job_mark
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling.task_layout import Layout

Variables = dict[str, str]
LAUNCHER_PORT = 60001
EVERY = slice(None)


def physical_gpus() -> int:
    """GPUs of this machine; the box then gives them out instead of CPU ranks."""
    try:
        return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))
    except OSError:
        return 0


def repeated(counts: list[int]) -> str:
    """`2(x2),1`, as Slurm writes a number per node."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


class JobVariables:
    """Works out the variables of one job."""

    def __init__(self, job: Job, parts: list[Allocation]) -> None:
        self.job = job
        self.parts = parts
        self.box = settings.load()
        self.gpus = physical_gpus() if self.box.gpus == "auto" else 0

    def common(self) -> Variables:
        """What is the same in the script and in every task."""
        job, parts = self.job, self.parts
        found = {
            "COURSE_BOX_HOME": settings.state_home(),
            job_mark.MARKER: job_mark.marker(job.id, settings.state_home()),
            "SLURM_CLUSTER_NAME": self.box.cluster,
            "SLURM_JOBID": str(job.id),
            "SLURM_JOB_CPUS_PER_NODE": repeated([len(part.cpus) for part in parts]),
            "SLURM_JOB_GID": str(job.gid),
            "SLURM_JOB_ID": str(job.id),
            "SLURM_JOB_NAME": job.name,
            "SLURM_JOB_NODELIST": compress([part.node for part in parts]),
            "SLURM_JOB_NUM_NODES": str(len(parts)),
            "SLURM_JOB_PARTITION": job.partition,
            "SLURM_JOB_UID": str(job.uid),
            "SLURM_JOB_USER": job.user,
            "SLURM_NODELIST": compress([part.node for part in parts]),
            "SLURM_PRIO_PROCESS": "0",
            "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
            "SLURM_WORKING_CLUSTER": f"{self.box.cluster}:box:0:9728:109",
        }
        if job.kind == "batch":
            found |= {"SLURM_NODE_ALIASES": "(null)", "TMPDIR": "/tmp"}
        elif job.tasks_per_node:
            found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
        return found | self._where_given()

    def _where_given(self) -> Variables:
        job = self.job
        found = {
            "SLURM_JOB_ACCOUNT": job.account,
            "SLURM_JOB_QOS": job.qos,
            "SLURM_JOB_RESERVATION": job.reservation,
            "SLURM_RESTART_COUNT": str(job.restarts or ""),
        }
        return {name: text for name, text in found.items() if text}

    def asked(self) -> Variables:
        """What the options of the submission put into the environment of the script."""
        job = self.job
        found = {
            "SLURM_CPUS_PER_TASK": str(job.cpus_per_task) if job.cpus_per_task else "",
            "SLURM_GPUS": job.gpus,
            "SLURM_GPUS_PER_NODE": job.gpus_per_node,
            "SLURM_GPUS_PER_TASK": job.gpus_per_task,
            "SLURM_DISTRIBUTION": job.distribution,
            "SLURM_MEM_PER_NODE": job.memory,
            "SLURM_MEM_PER_CPU": job.memory_per_cpu,
            "SLURM_MEM_PER_GPU": job.memory_per_gpu,
        }
        if job.tasks_given or job.tasks_per_node:
            found |= {"SLURM_NTASKS": str(job.tasks), "SLURM_NPROCS": str(job.tasks)}
        if job.tasks_per_node:
            found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
        return {name: text for name, text in found.items() if text}

    def batch(self) -> Variables:
        parts = self.parts
        found = {
            **self.common(),
            **self.asked(),
            "ENVIRONMENT": "BATCH",
            "HOSTNAME": parts[0].node,
            "SLURM_GTIDS": "0",
            "SLURM_LOCALID": "0",
            "SLURM_NNODES": str(len(parts)),
            "SLURM_PROCID": "0",
            "SLURM_TASKS_PER_NODE": repeated([part.tasks for part in parts]),
            **self.of_node(0, 0, len(parts[0].cpus)),
            **self.devices(0),
        }
        found.pop("SLURM_STEP_GPUS", None)
        return found

    def of_node(self, place: int, number: int, cpus: int) -> Variables:
        """`place` in the job's nodes, `number` in the step's."""
        node = self.parts[place].node
        return {
            "SLURMD_NODENAME": node,
            "SLURM_CPUS_ON_NODE": str(cpus),
            "SLURM_NODEID": str(number),
            "SLURM_TOPOLOGY_ADDR": node,
        }

    def devices(self, place: int, own: slice = EVERY) -> Variables:
        """`own`: of the job's devices on the node, those that a task has to itself."""
        part = self.parts[place]
        if not part.devices:
            return {}
        logical = ",".join(map(str, part.devices))
        visible = ",".join(map(str, self._physical(part)[own]))
        found = {
            "CUDA_VISIBLE_DEVICES": visible,
            "GPU_DEVICE_ORDINAL": visible,
            "ROCR_VISIBLE_DEVICES": visible,
            "ZE_AFFINITY_MASK": visible,
            "SLURM_GPUS_ON_NODE": str(len(part.devices)),
            "SLURM_STEP_GPUS": ",".join(map(str, part.devices[own])),
        }
        if self.job.kind == "batch":
            found["SLURM_JOB_GPUS"] = logical
        if self.gpus:
            # NCCL takes processes with different host ids for processes on different machines
            return {**found, "NCCL_HOSTID": f"course-box-{self.job.id}-{part.node}"}
        limit_bytes = int(self.job.memory_per_device_gib * 2**30)
        return {**found, "COURSE_DEVICE_MEMORY_BYTES": str(limit_bytes)}

    def _physical(self, part: Allocation) -> list[int]:
        """Nodes share the GPUs of the machine when it has fewer than the cluster has slots."""
        if not self.gpus:
            return list(part.devices)
        place = self.box.node_names.index(part.node) if part.node in self.box.node_names else 0
        first = place * self.box.devices_per_node
        return list(dict.fromkeys((first + device) % self.gpus for device in part.devices))

    def step(self, step: str, layout: Layout, label: bool, distribution: str) -> Variables:
        """The same for all tasks of a step, over the environment of its srun."""
        counts = layout.counts
        total = str(sum(counts))
        of_job = [part.node for part in self.parts]
        chosen = compress([of_job[place] for place in layout.places])
        default = "block" if sum(counts) > len(counts) else "cyclic"
        per_node = repeated(counts)
        found = {
            **self.common(),
            **self._inside(distribution or default),
            "SLURM_NNODES": str(len(counts)),
            "SLURM_NPROCS": total,
            "SLURM_NTASKS": total,
            "SLURM_STEPID": step,
            "SLURM_STEP_ID": step,
            "SLURM_STEP_NODELIST": chosen,
            "SLURM_STEP_NUM_NODES": str(len(counts)),
            "SLURM_STEP_NUM_TASKS": total,
            "SLURM_STEP_TASKS_PER_NODE": per_node,
            "SLURM_TASKS_PER_NODE": per_node,
            "SRUN_DEBUG": "3",
            **self._launcher(int(step)),
        }
        return {**found, "SLURM_LABELIO": "1"} if label else found

    def _inside(self, distribution: str) -> Variables:
        """What only a step of a batch job has, and not an srun outside of any job."""
        if self.job.kind != "batch":
            return {"SLURM_DISTRIBUTION": self.job.distribution} if self.job.distribution else {}
        kind, _, size = distribution.partition("=")
        return {
            "SLURM_DISTRIBUTION": kind,
            **({"SLURM_DIST_PLANESIZE": size} if size else {}),
            "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0": repeated([len(p.cpus) for p in self.parts]),
        }

    def _launcher(self, step: int) -> Variables:
        """Where Slurm's own messages to srun would go; ours take another way, nobody listens."""
        number = self.box.node_names.index(self.parts[0].node) + 1
        host, port = address(number), str(LAUNCHER_PORT + step % 1000)
        return {
            "SLURM_LAUNCH_NODE_IPADDR": host,
            "SLURM_SRUN_COMM_HOST": host,
            "SLURM_SRUN_COMM_PORT": port,
            "SLURM_STEP_LAUNCHER_PORT": port,
        }

    def task(self, layout: Layout, task: int, per_task: int = 0) -> Variables:
        """`per_task`: devices that each task has to itself; 0: all see all of the node."""
        node = layout.node_of(task)
        on_node = layout.tasks_on(node)
        place = layout.places[node]
        found = {
            **self.of_node(place, node, layout.cpus[node]),
            "SLURM_GTIDS": ",".join(map(str, on_node)),
            "SLURM_LOCALID": str(on_node.index(task)),
            "SLURM_PROCID": str(task),
        }
        first = on_node.index(task) * per_task
        own = slice(first, first + per_task) if per_task and len(on_node) > 1 else EVERY
        return {**found, **self.devices(place, own)}


def encoded(variables: Variables) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(text) for name, text in variables.items()}
