"""Where the numbers of an executed notebook come from: on what machine, when, by which jobs.

`course run` writes it into the notebook; the book says it below the title of the page. No host,
account or path is in it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.queue.records import Record

KEY = "course"
"""In the metadata of a notebook."""
GIB = 1 << 30
MONTHS = "January February March April May June July August September October November December"


@dataclass(frozen=True)
class Origin:
    machine: str
    date: str
    """As ISO writes it, `2026-11-23`."""
    sites: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """Folders of the runs that this lesson made, in the order of their submission."""

    def words(self) -> str:
        where = f" on {' and '.join(self.sites)}" if self.sites else ""
        jobs = f"{len(self.runs)} jobs{where}" if self.runs else "no jobs"
        return f"{day(self.date)}, {jobs}; {self.machine}"


def of(records: Iterable[Record]) -> Origin:
    """Of a lesson that ran here, today."""
    made = list(records)
    sites = tuple(dict.fromkeys(SITES.get(record.site, record.site) for record in made))
    runs = tuple(record.folder for record in made)
    return Origin(machine(), time.strftime("%Y-%m-%d"), sites, runs)


SITES = {"box": "the box", "recorded": "recorded runs", "slurm": "a Slurm cluster"}


def write(notebook: Any, origin: Origin) -> None:
    notebook.metadata[KEY] = asdict(origin)


def read(notebook: Any) -> Origin | None:
    """None where the notebook does not say, or says what cannot be meant."""
    told = notebook.metadata.get(KEY)
    if not isinstance(told, dict) or not isinstance(told.get("machine"), str):
        return None
    sites, runs = (told.get(name, ()) for name in ("sites", "runs"))
    if not all(isinstance(names, list | tuple) for names in (sites, runs)):
        return None
    texts = [tuple(map(str, names)) for names in (sites, runs)]
    return Origin(told["machine"], str(told.get("date", "")), *texts)


def day(date: str) -> str:
    """`23 November 2026`; what is no date stays as it is."""
    try:
        when = time.strptime(date, "%Y-%m-%d")
    except ValueError:
        return date
    return f"{when.tm_mday} {MONTHS.split()[when.tm_mon - 1]} {when.tm_year}"


def machine() -> str:
    """`a machine with 2 cores (AMD EPYC …), 23 GiB of memory and no GPU`, as far as it tells."""
    import psutil

    cores = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else 0
    cores = cores or psutil.cpu_count() or 1
    processor = f" ({name})" if (name := processor_name()) else ""
    memory_gib = psutil.virtual_memory().total / GIB
    plural = "" if cores == 1 else "s"
    return (
        f"a machine with {cores} core{plural}{processor}, {memory_gib:.0f} GiB of memory and "
        f"{gpus()}, {platform.system()}"
    )


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
