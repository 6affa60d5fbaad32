"""The speed of a device slot without GPU: always the same share of a core.

A slot's program stretches its computing by a factor of the processor time that it used. All slots
then fit on the cores, and no slot is faster while its neighbour waits. The factor is chosen when
the box is first used and kept with its state, so that jobs of different days can be compared.
"""

from __future__ import annotations

import os

from course_lib.box import gpus, settings, state_folder
from course_lib.box.frozen_record import Record

VARIABLE = b"COURSE_DEVICE_PACE"
KEPT = "device_pace.txt"
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
        return Pace(factor=float(box.device_pace), why="box.toml says so")
    found = gpus.find()
    if gpus.usable(found, box.gpus, box.slots).names:
        return Pace(factor=1.0, why="the slots are GPUs")
    path = os.path.join(settings.state_home(), KEPT)
    cores = usable_cores()
    if (known := _kept(path)) is None or known[0] != box.slots:
        known = (box.slots, cores, chosen(box.slots, cores))
        state_folder.keep(path, " ".join(map(str, known)) + "\n")
    slots, counted, factor = known
    why = f"{_counted(slots, 'slot')} on {_counted(counted, 'core')}"
    if cores != counted:
        why += f"; {_counted(cores, 'core')} now, remove {path} to choose again"
    return Pace(factor=factor, why=why, unused=_unused(len(found.names), box))


def _unused(count: int, box: settings.Settings) -> str:
    """Return a sentence about GPUs that the slots would have to share."""
    if not count or box.gpus != "auto":
        return ""
    path = os.path.join(settings.state_home(), settings.SETTINGS_FILE)
    return (
        f"{_counted(count, 'GPU')} for {_counted(box.slots, 'slot')}, so these compute on "
        f"processors; gpus = 'share' in {path} has them share"
    )


def variables(box: settings.Settings) -> dict[bytes, bytes]:
    """Return the variable for processes with a device. Their own environment overrides it."""
    factor = of_slot(box).factor
    return {VARIABLE: b"%g" % factor} if factor > 1 else {}


def chosen(slots: int, cores: float) -> float:
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
