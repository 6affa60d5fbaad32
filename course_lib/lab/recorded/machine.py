"""Descriptions of a machine without host, account or path."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

from course_lib.words import _

GIB = 1 << 30
RECORDED = re.compile(r"recorded on (?P<day>[\d-]+) on (?P<where>.+)")
MACHINE = re.compile(
    r"a machine with (?P<cores>\d+) cores?(?P<name>.*), (?P<gib>\d+) GiB of memory and "
    r"(?P<gpus>.*), (?P<system>\w*)"
)


def machine() -> str:
    """Describe this machine as far as possible, such as `a machine with 2 cores (AMD EPYC …), 23
    GiB of memory and no GPU`. The text is stored, so it is in English."""
    import psutil

    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    name = f" ({named})" if (named := processor_name()) else ""
    return (
        f"a machine with {cores} core{'' if cores == 1 else 's'}{name}, "
        f"{psutil.virtual_memory().total / GIB:.0f} GiB of memory and {gpus()}, {platform.system()}"
    )


def recorded_words(origin: str) -> str:
    """Return the banner of a recorded run in the reader's language."""
    found = RECORDED.fullmatch(origin)
    if not found:
        return origin
    return _("recorded on {last} on {where}", last=found["day"], where=described(found["where"]))


def described(machine: str) -> str:
    """Translate a description of a machine into the reader's language."""
    found = MACHINE.fullmatch(machine)
    if not found:
        return machine
    cores = _("1 core") if found["cores"] == "1" else _("{cores} cores", cores=found["cores"])
    return _(
        "a machine with {cores}, {memory_gib} GiB of memory and {value}, {system}",
        cores=f"{cores}{found['name']}",
        memory_gib=found["gib"],
        value=_("no GPU") if found["gpus"] == "no GPU" else found["gpus"],
        system=found["system"],
    )


def processor_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return ""


def gpus() -> str:
    """Return the GPUs of the notebook's machine, which may be a login node without GPUs."""
    ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "no GPU"
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if not names:
        return "no GPU"
    return f"{len(names)} × {names[0]}" if len(set(names)) == 1 else ", ".join(names)
