"""The devices behind the slots: the GPUs of this machine, or the chosen pace of slots without GPU.

A slot without a GPU always has the same share of a core. Its program (`code/process/pace.py`)
stretches its computing by a factor of its processor time. All slots then fit on the cores, and no
slot is faster while its neighbour waits. The factor is chosen at the box's first use and kept,
so that jobs of different days can be compared. Every command imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from course_lib.box import settings, state_folder
from course_lib.box.settings import Record

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
    """Apply the limits in order. Each limit selects among the names that the previous limit
    left."""
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
    if settings.MARKER in environment:
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


PACE_VARIABLE = b"COURSE_DEVICE_PACE"
KEPT_PACE = "device_pace.txt"
# Margin for other work on the cores: messages, the box, the learner's notebook. Measured with four
# slots on two cores: without it the slots slow each other, with 1.25 repeats differ more.
MARGIN = 1.5


class Pace(Record):
    """The pace of a slot. `factor` is the duration of computing in units of its processor time.
    With 1, computing is not slowed down. `why` and `unused` are sentences for people; `unused` is
    about GPUs that are not used."""

    factor: float
    why: str
    unused: str = ""


def of_slot(box: settings.Settings) -> Pace:
    if isinstance(box.device_pace, (int, float)):
        return Pace(factor=float(box.device_pace), why="set in box.toml")
    found = find()
    if usable(found, box.gpus, box.slots).names:
        return Pace(factor=1.0, why="the slots are GPUs")
    path = os.path.join(settings.state_home(), KEPT_PACE)
    cores = usable_cores()
    if (known := _kept(path)) is None or known[0] != box.slots:
        known = (box.slots, cores, factor_for(box.slots, cores))
        state_folder.keep(path, " ".join(map(str, known)) + "\n")
    slots, counted, factor = known
    why = f"{_counted(slots, 'slot')} on {_counted(counted, 'core')}"
    if cores != counted:
        why += f"; now {_counted(cores, 'core')}, so remove {path} to choose again"
    return Pace(factor=factor, why=why, unused=_unused(len(found.names), box))


def _unused(count: int, box: settings.Settings) -> str:
    """Return a sentence about GPUs that the slots would have to share."""
    if not count or box.gpus != "auto":
        return ""
    path = os.path.join(settings.state_home(), settings.SETTINGS_FILE)
    return (
        f"{_counted(count, 'GPU')} for {_counted(box.slots, 'slot')}, so the slots compute on "
        f"processors; with gpus = 'share' in {path} they share GPUs"
    )


def pace_variables(box: settings.Settings) -> dict[bytes, bytes]:
    """Return the variable for processes with a device. Their own environment overrides it."""
    factor = of_slot(box).factor
    return {PACE_VARIABLE: b"%g" % factor} if factor > 1 else {}


def factor_for(slots: int, cores: float) -> float:
    return 1.0 if cores >= slots else round(MARGIN * slots / cores, 1)


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}{'s' * (number != 1)}"


def _kept(path: str) -> tuple[int, float, float] | None:
    try:
        with open(path) as file:
            slots, cores, factor = file.read().split()
        known = int(slots), float(cores), float(factor)
    except (OSError, ValueError):
        return None
    return known if known[1] > 0 and 1 <= known[2] < settings.SLOWEST_PACE else None


def usable_cores(root: str = "/") -> float:
    """Return the number of usable cores, limited by CPU affinity and control groups."""
    if hasattr(os, "sched_getaffinity"):
        cores = float(len(os.sched_getaffinity(0)))
    else:
        cores = float(os.cpu_count() or 1)
    return min([cores, *_quotas(root)])


def _quotas(root: str) -> list[float]:
    """Return the CPU limits of this process's control groups (v2) and of a container (v1)."""
    base = os.path.join(root, "sys/fs/cgroup")
    groups = [line.split("::", 1)[1] for line in _lines(root, "proc/self/cgroup") if "::" in line]
    folder, found = groups[0].strip("/") if groups else "", []
    while True:
        for line in _lines(base, folder, "cpu.max"):
            found.append(line.split())
        if not folder:
            break
        folder = os.path.dirname(folder)
    old = [_lines(base, "cpu", f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    found += [[quota, period] for quota, period in zip(*old, strict=False)]
    numbers = [pair for pair in found if len(pair) == 2 and all(word.isdigit() for word in pair)]
    return [int(quota) / int(period) for quota, period in numbers if int(quota) and int(period)]


def _lines(*path: str) -> list[str]:
    try:
        with open(os.path.join(*path), encoding="ascii") as file:
            return file.read().split("\n")
    except (OSError, UnicodeDecodeError):
        return []
