"""The GPUs of this machine that the box may allot, and the variables that name them.

Every command that starts a process of the box imports this module, so it must load fast.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from course_lib.box.frozen_record import Record
from course_lib.box.processes import control

NVIDIA, AMD = "nvidia", "amd"
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
# Some libraries would treat an empty list as no limit.
NONE = "-1"
# Prefix of variables that pass the outer environment's limits to processes of the box. In a job,
# the original variables hold the devices that the box gave to the job.
OUTER = "COURSE_BOX_OUTER_"


class Gpus(Record):
    # Also set if the box may use none of the GPUs.
    maker: str = ""
    # Indexes, or identifiers such as MIG-… and GPU-… if the environment uses them.
    names: tuple[str, ...] = ()

    def of_slots(self, slots: Sequence[int]) -> list[str]:
        """Return the GPUs of slots. If there are fewer GPUs than slots, slots share them."""
        return list(dict.fromkeys(self.names[slot % len(self.names)] for slot in slots))


def usable(found: Gpus, way: str, slots: int) -> Gpus:
    """Return the GPUs that the slots get. Ranks that share a GPU take turns on it, and a message
    between them takes milliseconds. The results would not resemble ranks on their own GPUs, so
    sharing needs the setting `share`."""
    enough = way == "share" or (way == "auto" and len(found.names) >= slots)
    return found if enough else Gpus(maker=found.maker)


def find(root: str = "/", environment: Mapping[str, str] = os.environ) -> Gpus:
    """Find the machine's GPUs, except GPUs that the environment around the box excludes."""
    outer = {name: environment.get(OUTER + name) for name in (CUDA, HIP, ROCR)}
    if count := _nvidia(root):
        return Gpus(maker=NVIDIA, names=tuple(_chosen(count, [outer[CUDA]])))
    by_hip = outer[CUDA] if outer[HIP] is None else outer[HIP]  # HIP uses one of them, after ROCr
    count = _amd(root)
    return Gpus(maker=AMD if count else "", names=tuple(_chosen(count, [outer[ROCR], by_hip])))


def _nvidia(root: str) -> int:
    return sum(name[:6] == "nvidia" and name[6:].isdigit() for name in _listed(root, "dev"))


def _amd(root: str) -> int:
    """Count the driver's table entries with vector units. The others are processors."""
    if "kfd" not in _listed(root, "dev"):
        return 0
    nodes = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    return sum(_has_vector_units(os.path.join(nodes, name)) for name in _listed(nodes))


def _has_vector_units(node: str) -> bool:
    try:
        with open(os.path.join(node, "properties"), encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:  # this container may not use the GPU
        return False
    return any(words[0] == "simd_count" and words[1] != "0" for words in lines if len(words) == 2)


def _listed(*folder: str) -> list[str]:
    try:
        return os.listdir(os.path.join(*folder))
    except OSError:
        return []


def _chosen(count: int, limits: list[str | None]) -> list[str]:
    """Apply the limits in order. Each limit selects among the names that the last one left."""
    names = [str(number) for number in range(count)]
    for limit in limits:
        names = names if limit is None or not names else _limited(names, limit)
    return names


def _limited(names: list[str], limit: str) -> list[str]:
    """Apply a limit as the makers' libraries do: it ends at the first entry without a device."""
    found: list[str] = []
    for word in limit.split(","):
        name = word.strip()
        if name.isdigit() and int(name) < len(names):
            name = names[int(name)]
        elif not name.startswith(("GPU-", "MIG-")):
            break
        if name not in found:
            found.append(name)
    return found


def outer_limits(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the outer limits for processes of the box. A job has received them already."""
    kept = {name: text for name, text in environment.items() if name.startswith(OUTER)}
    if control.MARKER in environment:
        return kept
    found = {OUTER + name: environment[name] for name in (CUDA, HIP, ROCR) if name in environment}
    return {**kept, **found}


def visible(maker: str, names: Sequence[str]) -> dict[str, str]:
    """Return the variables that select these GPUs. AMD's runtime renumbers the devices that
    ROCR_VISIBLE_DEVICES leaves, and HIP selects among the new numbers."""
    given = ",".join(names) or (NONE if maker else "")
    if maker != AMD:
        return {name: given for name in (CUDA, "GPU_DEVICE_ORDINAL", ROCR, "ZE_AFFINITY_MASK")}
    left = ",".join(str(number) for number in range(len(names))) or NONE
    return {ROCR: given, **{name: left for name in (HIP, CUDA, "GPU_DEVICE_ORDINAL")}}
