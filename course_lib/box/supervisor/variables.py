"""The variables that Slurm 22.05 gives to a batch script and to the tasks of a step."""

from __future__ import annotations

import os

from course_lib.box import gpus, settings
from course_lib.box.dispatch import temporary_files
from course_lib.box.hostlist import compress
from course_lib.box.nodes import device_pace
from course_lib.box.nodes.namespaces import address
from course_lib.box.processes import job_mark
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling.task_layout import Layout
from course_lib.box.supervisor.job_variables import (
    Variables,
    array_variables,
    asked_for,
    job_and_nodes,
    repeated,
    spread_over_nodes,
)

LAUNCHER_PORT = 60001
Devices = tuple[int, ...]
OF_DEVICES = {
    *(b"CUDA_VISIBLE_DEVICES", b"GPU_DEVICE_ORDINAL", b"ROCR_VISIBLE_DEVICES"),
    *(b"HIP_VISIBLE_DEVICES", b"ZE_AFFINITY_MASK", b"SLURM_GPUS_ON_NODE"),
}
OF_ANOTHER_JOB = OF_DEVICES | {b"SLURM_JOB_GPUS", b"NCCL_HOSTID", b"COURSE_DEVICE_MEMORY_BYTES"}


class JobVariables:
    """Works out the variables of one job."""

    def __init__(self, job: Job, parts: list[Allocation]) -> None:
        self.job = job
        self.parts = parts
        self.box = settings.load()
        self.machine = gpus.lent(gpus.find(), self.box.gpus, self.box.slots)
        self.pace = device_pace.variables(self.box)
        chosen = job.variables().get(settings.COMPILED_CODE.encode(), b"")
        # torch sets the one in /tmp in its own environment, as in a notebook that submits
        self.names_compiled_code = bool(chosen) and b"/torchinductor_" not in chosen

    @property
    def gpus(self) -> int:
        """GPUs of this machine; the box then gives them out instead of CPU ranks."""
        return len(self.machine.names)

    def common(self) -> Variables:
        """What is the same in the script and in every task."""
        job, parts = self.job, self.parts
        found = {
            job_mark.MARKER: job_mark.marker(job.id, settings.state_home()),
            **job_and_nodes(job, parts, self.box.cluster),
            "SLURM_JOB_GID": str(job.gid),
            "SLURM_JOB_UID": str(job.uid),
            "SLURM_JOB_USER": job.user,
            "SLURM_PRIO_PROCESS": "0",
            "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
            "SLURM_WORKING_CLUSTER": f"{self.box.cluster}:box:0:9728:109",
            "TMPDIR": temporary_files.of_job(job.id),
        }
        if job.kind == "batch":
            found["SLURM_NODE_ALIASES"] = "(null)"
        elif job.tasks_per_node:
            found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
        return found | gpus.outer_limits(os.environ) | self._if_any()

    def _if_any(self) -> Variables:
        found = {
            "SLURM_RESTART_COUNT": str(self.job.restarts or ""),
            settings.COMPILED_CODE: "" if self.names_compiled_code else settings.compiled_code(),
        }
        return {name: text for name, text in found.items() if text}

    def batch(self) -> Variables:
        job, parts = self.job, self.parts
        found = {
            **self.common(),
            **asked_for(job),
            **array_variables(job),
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

    def devices(
        self, place: int, held: Devices | None = None, own: Devices | None = None
    ) -> Variables:
        """`held`: of the job's devices on the node, those of the step; `own`: of a task."""
        part = self.parts[place]
        held = part.devices if held is None else held
        own = held if own is None else own
        if not own:
            return {"SLURM_GPUS_ON_NODE": str(len(held))} if held else {}
        logical = ",".join(map(str, part.devices))
        found = {
            **gpus.visible(self.machine.maker, self._physical(part.node, own)),
            "SLURM_GPUS_ON_NODE": str(len(held)),
            "SLURM_STEP_GPUS": ",".join(map(str, own)),
        }
        if self.job.kind == "batch":
            found["SLURM_JOB_GPUS"] = logical
        if self.gpus:
            # NCCL takes processes with different host ids for processes on different machines
            return {**found, "NCCL_HOSTID": f"course-box-{self.job.id}-{part.node}"}
        limit_bytes = int(self.job.memory_per_device_gib * 2**30)
        return {**found, "COURSE_DEVICE_MEMORY_BYTES": str(limit_bytes)}

    def _physical(self, node: str, devices: Devices) -> list[str]:
        """Each node begins at a share of its own, so that nodes with few slots in use do not meet
        on one GPU; they share where the machine has fewer than the cluster has slots."""
        if not self.gpus:  # as Slurm names them, but never a real one that is not ours to give
            return [] if self.machine.maker else [str(device) for device in devices]
        place = self.box.node_names.index(node) if node in self.box.node_names else 0
        first = place * self.gpus // len(self.box.node_names)
        return self.machine.of_slots([first + device for device in devices])

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
            return spread_over_nodes(self.job.distribution)
        return {
            **spread_over_nodes(distribution),
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

    def task(self, layout: Layout, task: int, own: Devices) -> Variables:
        """`own`: the devices that it sees."""
        node = layout.node_of(task)
        on_node = layout.tasks_on(node)
        place = layout.places[node]
        found = {
            **self.of_node(place, node, layout.cpus[node]),
            "SLURM_GTIDS": ",".join(map(str, on_node)),
            "SLURM_LOCALID": str(on_node.index(task)),
            "SLURM_PROCID": str(task),
        }
        return {**found, **self.devices(place, layout.devices[node], own)}


def without(names: set[bytes], environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """What the submission, or the job of a step, says of devices is not true of what it starts."""
    return {name: text for name, text in environment.items() if name not in names}


def encoded(variables: Variables) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(text) for name, text in variables.items()}
