"""The variables that Slurm 22.05 sets for a batch script and for the tasks of a step."""

from __future__ import annotations

import os

from course_lib.box import devices, settings, state_folder
from course_lib.box.hostlist import compress
from course_lib.box.nodes.namespaces import address
from course_lib.box.queue import arrays
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling.step_placement import Layout

Devices = tuple[int, ...]
OF_DEVICES = {
    *(b"CUDA_VISIBLE_DEVICES", b"GPU_DEVICE_ORDINAL", b"ROCR_VISIBLE_DEVICES"),
    *(b"HIP_VISIBLE_DEVICES", b"ZE_AFFINITY_MASK", b"SLURM_GPUS_ON_NODE"),
}
OF_ANOTHER_JOB = OF_DEVICES | {b"SLURM_JOB_GPUS", b"NCCL_HOSTID", b"COURSE_DEVICE_MEMORY_BYTES"}


class JobVariables:
    """Computes the environment variables of one job."""

    def __init__(self, job: Job, parts: list[Allocation]) -> None:
        self.job = job
        self.parts = parts
        self.box = settings.load()
        self.machine = devices.usable(devices.find(), self.box.gpus, self.box.slots)
        self.pace = devices.pace_variables(self.box)
        chosen = job.variables().get(settings.COMPILED_CODE.encode(), b"")
        # torch sets the folder in /tmp in its own environment, as in a notebook that submits
        self.names_compiled_code = bool(chosen) and b"/torchinductor_" not in chosen

    @property
    def gpus(self) -> int:
        """Return the number of GPUs. If there are any, the box allots them instead of CPU ranks."""
        return len(self.machine.names)

    def common(self) -> Variables:
        """Return the variables that the script and every task share."""
        job, parts = self.job, self.parts
        found = {
            settings.MARKER: settings.marker(job.id, settings.state_home()),
            **job_and_nodes(job, parts, self.box.cluster),
            "SLURM_JOB_GID": str(job.gid),
            "SLURM_JOB_UID": str(job.uid),
            "SLURM_JOB_USER": job.user,
            "TMPDIR": state_folder.temporary_folder(job.id),
        }
        if job.kind != "batch" and job.tasks_per_node:
            found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
        return found | devices.outer_limits(os.environ) | self._if_any()

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
        """Return the variables of a node. `place` counts nodes of the job, `number` of the step."""
        return {
            "SLURMD_NODENAME": self.parts[place].node,
            "SLURM_CPUS_ON_NODE": str(cpus),
            "SLURM_NODEID": str(number),
        }

    def devices(
        self, place: int, held: Devices | None = None, own: Devices | None = None
    ) -> Variables:
        """Return the device variables. `held` are the step's devices, `own` a task's."""
        part = self.parts[place]
        held = part.devices if held is None else held
        own = held if own is None else own
        if not own:
            return {"SLURM_GPUS_ON_NODE": str(len(held))} if held else {}
        logical = ",".join(map(str, part.devices))
        found = {
            **devices.visible(self.machine.maker, self._physical(part.node, own)),
            "SLURM_GPUS_ON_NODE": str(len(held)),
            "SLURM_STEP_GPUS": ",".join(map(str, own)),
        }
        if self.job.kind == "batch":
            found["SLURM_JOB_GPUS"] = logical
        if self.gpus:
            # NCCL treats processes with different host ids as processes on different machines
            return {**found, "NCCL_HOSTID": f"course-box-{self.job.id}-{part.node}"}
        limit_bytes = int(self.job.memory_per_device_gib * 2**30)
        return {**found, "COURSE_DEVICE_MEMORY_BYTES": str(limit_bytes)}

    def _physical(self, node: str, devices: Devices) -> list[str]:
        """Return the physical GPUs of a node's slots. Each node starts at its own share, so nodes
        with few used slots do not meet on one GPU. Nodes share GPUs if the machine has fewer GPUs
        than the cluster has slots."""
        if not self.gpus:  # numbered as in Slurm, but never a real GPU that the box may not use
            return [] if self.machine.maker else [str(device) for device in devices]
        place = self.box.node_names.index(node) if node in self.box.node_names else 0
        first = place * self.gpus // len(self.box.node_names)
        return self.machine.of_slots([first + device for device in devices])

    def step(self, step: str, layout: Layout, label: bool, distribution: str) -> Variables:
        """Return the variables that a step's tasks share. They override srun's environment."""
        counts = layout.counts
        total = str(sum(counts))
        of_job = [part.node for part in self.parts]
        chosen = compress([of_job[place] for place in layout.places])
        default = "block" if sum(counts) > len(counts) else "cyclic"
        per_node = repeated(counts)
        found = {
            **self.common(),
            "SLURM_LAUNCH_NODE_IPADDR": self._address_of_first(),
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
        }
        if self.job.kind != "batch":  # a lone srun passes on what it was asked for
            distribution = default = self.job.distribution
        asked = {
            "SLURM_DISTRIBUTION": (distribution or default).lower(),
            "SLURM_LABELIO": "1" if label else "",
        }
        return found | {name: text for name, text in asked.items() if text}

    def _address_of_first(self) -> str:
        return address(self.box.node_names.index(self.parts[0].node) + 1)

    def task(self, layout: Layout, task: int, own: Devices) -> Variables:
        """Return the variables of a task. `own` are the devices that it sees."""
        node = layout.node_of(task)
        on_node = layout.tasks[node]
        place = layout.places[node]
        found = {
            **self.of_node(place, node, layout.cpus[node]),
            "SLURM_GTIDS": ",".join(map(str, on_node)),
            "SLURM_LOCALID": str(on_node.index(task)),
            "SLURM_PROCID": str(task),
        }
        return {**found, **self.devices(place, layout.devices[node], own)}


def without(names: set[bytes], environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Remove variables that describe the submission or the job, not the program that starts."""
    return {name: text for name, text in environment.items() if name not in names}


def encoded(variables: Variables) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(text) for name, text in variables.items()}


Variables = dict[str, str]


def job_and_nodes(job: Job, parts: list[Allocation], cluster: str) -> Variables:
    """Return the job's id and name, its cluster and its nodes."""
    nodes = compress([part.node for part in parts])
    given = {
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_QOS": job.qos,
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
    """Write a number per node as Slurm does, such as `2(x2),1`."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


def asked_for(job: Job) -> Variables:
    """Return the variables that come from options of the submission."""
    found = {
        "SLURM_CPUS_PER_TASK": str(job.cpus_per_task or ""),
        "SLURM_GPUS": str(job.gpus or ""),
        "SLURM_GPUS_PER_NODE": str(job.gpus_per_node or ""),
        "SLURM_GPUS_PER_TASK": str(job.gpus_per_task or ""),
        "SLURM_DISTRIBUTION": job.distribution.lower(),
        "SLURM_MEM_PER_NODE": job.memory if job.memory != "0" else "",
        "SLURM_MEM_PER_CPU": job.memory_per_cpu,
    }
    if job.tasks_given or job.tasks_per_node:
        found |= {"SLURM_NTASKS": str(job.tasks), "SLURM_NPROCS": str(job.tasks)}
    if job.tasks_per_node:
        found["SLURM_NTASKS_PER_NODE"] = str(job.tasks_per_node)
    return {name: text for name, text in found.items() if text}
