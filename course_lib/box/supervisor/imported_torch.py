"""The data segment of a Python process that has imported torch, and nothing else.

Builds for GPUs bring libraries that reserve hundreds of MiB more than the one for processors, also
on a machine without a GPU, which is what `pip install torch` puts there. So it is measured where
torch is such a build, once, and kept with the state of the box.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

from course_lib.box import settings
from course_lib.box.processes.log import note
from course_lib.box.queue import private_folder

OF_PROCESSORS_BYTES = 218 * 2**20
OF_GPUS_BYTES = 766 * 2**20
"""Measured of torch 2.13 for CUDA 13: where it could not be measured here."""
MAKERS = ("cuda", "hip", "xpu")
KEPT = "imported_torch.txt"
LONGEST_S = 120
PROGRAM = """\
import re, torch.distributed
with open("/proc/self/status") as status:
    print(re.search(r"VmData:\\s+(\\d+) kB", status.read())[1])
"""


@cache
def data_bytes() -> int:
    version = _version_for_gpus()
    if not version:
        return OF_PROCESSORS_BYTES
    path = os.path.join(settings.state_home(), KEPT)
    if (known := _kept(path, version)) is not None:
        return known
    if (measured := _measured()) is None:
        return OF_GPUS_BYTES  # the next job tries again
    private_folder.keep(path, f"{version} {measured}\n")
    return measured


def _version_for_gpus() -> str:
    """Read from its file, since torch takes seconds to import; empty: for processors, or none."""
    found = find_spec("torch")
    for folder in (found and found.submodule_search_locations) or []:
        try:
            told = runpy.run_path(os.path.join(folder, "version.py"))
        except (OSError, SyntaxError):
            continue
        if any(told.get(maker) for maker in MAKERS):
            return "".join(str(told.get("__version__", "unknown")).split())
    return ""


def _measured() -> int | None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.DEVNULL, capture_output=True,
            check=True, timeout=LONGEST_S,
        )  # fmt: skip
        return int(done.stdout) * 1024
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        note(f"the data segment of a process with torch could not be measured: {error}")
        return None


def _kept(path: str, version: str) -> int | None:
    try:
        with open(path, encoding="utf-8") as file:
            of_version, number = file.read().split()
        return int(number) if of_version == version else None
    except (OSError, ValueError):
        return None
