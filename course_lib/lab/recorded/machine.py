"""On what machine something was measured, and when: in words, without host, account or path."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from pathlib import Path

from course_lib.words import spoken

GIB = 1 << 30
MONTHS = spoken(
    "{day} January {year}",
    "{day} February {year}",
    "{day} March {year}",
    "{day} April {year}",
    "{day} May {year}",
    "{day} June {year}",
    "{day} July {year}",
    "{day} August {year}",
    "{day} September {year}",
    "{day} October {year}",
    "{day} November {year}",
    "{day} December {year}",
)
"""Each form whole, for languages in which the year comes first."""


def day(date: str) -> str:
    """`23 November 2026`; what is no date stays as it is."""
    try:
        when = time.strptime(date, "%Y-%m-%d")
    except ValueError:
        return date
    return MONTHS[when.tm_mon - 1].format(day=when.tm_mday, year=when.tm_year)


def machine() -> str:
    """`a machine with 2 cores (AMD EPYC …), 23 GiB of memory and no GPU`, as far as it tells."""
    import psutil

    cores = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0
    cores = cores or psutil.cpu_count() or 1
    memory_gib = psutil.virtual_memory().total / GIB
    return (
        f"a machine with {_computes(cores)}, {memory_gib:.0f} GiB of memory and "
        f"{gpus()}, {platform.system()}"
    )


def _computes(cores: int) -> str:
    """Each form whole: a translation cannot tell two parts that stand side by side."""
    if name := processor_name():
        return f"1 core ({name})" if cores == 1 else f"{cores} cores ({name})"
    return "1 core" if cores == 1 else f"{cores} cores"


def processor_name(file: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return " ".join(next(named, "").split())


def gpus() -> str:
    """Of the machine where the notebook ran; a login node has none, and its jobs may."""
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
