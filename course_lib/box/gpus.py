"""The GPUs of this machine that the box may give out, and the variables that name them.

Imported by every command that starts a process of the box: keep it light.
"""

from __future__ import annotations

import os

from course_lib.box.frozen_record import Record
from course_lib.box.processes import job_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NVIDIA, AMD = "nvidia", "amd"
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
NONE = "-1"
"""An empty list would be no limit to some of them."""
OUTER = "COURSE_BOX_OUTER_"
"""Begins the names under which the limits of the environment around the box reach its processes:
in a job the variables themselves say what the box gave to that job."""


class Gpus(Record):
    maker: str = ""
    """Also where the box may use none of those that are there."""
    names: tuple[str, ...] = ()
    """Indexes, or identifiers such as MIG-… and GPU-… where the environment gave those."""

    def of_slots(self, slots: Sequence[int]) -> list[str]:
        """Slots share GPUs where there are fewer of these, so that none is ever without."""
        return list(dict.fromkeys(self.names[slot % len(self.names)] for slot in slots))


def lent(found: Gpus, way: str, slots: int) -> Gpus:
    """What of it the slots get. Ranks that share a GPU take turns on it, a message between them
    takes milliseconds, and nothing comes out as on GPUs of their own; hence only where somebody
    says `share`."""
    enough = way == "share" or (way == "auto" and len(found.names) >= slots)
    return found if enough else Gpus(maker=found.maker)


def find(root: str = "/", environment: Mapping[str, str] = os.environ) -> Gpus:
    """What is there, less what the environment around the box holds back."""
    outer = {name: environment.get(OUTER + name) for name in (CUDA, HIP, ROCR)}
    if count := _nvidia(root):
        return Gpus(maker=NVIDIA, names=tuple(_chosen(count, [outer[CUDA]])))
    by_hip = outer[CUDA] if outer[HIP] is None else outer[HIP]  # HIP heeds one, of what ROCr leaves
    count = _amd(root)
    return Gpus(maker=AMD if count else "", names=tuple(_chosen(count, [outer[ROCR], by_hip])))


def _nvidia(root: str) -> int:
    return sum(name[:6] == "nvidia" and name[6:].isdigit() for name in _listed(root, "dev"))


def _amd(root: str) -> int:
    """Nodes of the driver's table that have vector units; the others are processors."""
    if "kfd" not in _listed(root, "dev"):
        return 0
    nodes = os.path.join(root, "sys/class/kfd/kfd/topology/nodes")
    return sum(_has_vector_units(os.path.join(nodes, name)) for name in _listed(nodes))


def _has_vector_units(node: str) -> bool:
    try:
        with open(os.path.join(node, "properties"), encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:  # that of a GPU which this container may not use
        return False
    return any(words[0] == "simd_count" and words[1] != "0" for words in lines if len(words) == 2)


def _listed(*folder: str) -> list[str]:
    try:
        return os.listdir(os.path.join(*folder))
    except OSError:
        return []


def _chosen(count: int, limits: list[str | None]) -> list[str]:
    """Each limit counts in what the one before it leaves."""
    names = [str(number) for number in range(count)]
    for limit in limits:
        names = names if limit is None or not names else _limited(names, limit)
    return names


def _limited(names: list[str], limit: str) -> list[str]:
    """As the makers' libraries read such a list: it ends at the first entry that is no device."""
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
    """For processes of the box and its jobs; in a job, those that were passed on to it."""
    kept = {name: text for name, text in environment.items() if name.startswith(OUTER)}
    if job_mark.MARKER in environment:
        return kept
    found = {OUTER + name: environment[name] for name in (CUDA, HIP, ROCR) if name in environment}
    return {**kept, **found}


def visible(maker: str, names: Sequence[str]) -> dict[str, str]:
    """AMD's runtime numbers anew what ROCR_VISIBLE_DEVICES leaves, and HIP chooses among that."""
    given = ",".join(names) or (NONE if maker else "")
    if maker != AMD:
        return {name: given for name in (CUDA, "GPU_DEVICE_ORDINAL", ROCR, "ZE_AFFINITY_MASK")}
    left = ",".join(str(number) for number in range(len(names))) or NONE
    return {ROCR: given, **{name: left for name in (HIP, CUDA, "GPU_DEVICE_ORDINAL")}}
