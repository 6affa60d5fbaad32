"""Descriptions of a machine without host, account or path."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
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

    cores = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0
    cores = cores or psutil.cpu_count() or 1
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


def processor_name(file: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return " ".join(next(named, "").split())


def gpus() -> str:
    """Return the GPUs of the notebook's machine, which may be a login node without GPUs."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return "no GPU"
    ask = [path, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "no GPU"
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not names:
        return "no GPU"
    return f"{len(names)} × {names[0]}" if len(set(names)) == 1 else ", ".join(names)
