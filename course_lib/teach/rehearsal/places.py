"""Disk, memory and ports, for as many as will come."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.job.site import Site
from course_lib.lab.workspace import Workspace

GIB = 1 << 30
OF_A_LEARNER_GIB = 0.5
"""Runs, traces and checkpoints that lie there at once, when lessons clean up at their end."""
MEMORY_OF_A_BOX_GIB = 2.0
PIECE = b"\1" * (1 << 20)
QUOTA_S = 10


def disk(place: Workspace, users: int) -> Iterator[Finding]:
    """Whether so much can be written as one learner needs, and whether it is there for all."""
    if said := _written(place):
        yield bad(
            f"{OF_A_LEARNER_GIB:g} GiB cannot be written to {place.folder}: {said}",
            "every lesson needs it: free space, ask for a larger quota, or set COURSE_WORKSPACE",
        )
        return
    free_gib = shutil.disk_usage(place.folder).free / GIB
    need_gib = users * OF_A_LEARNER_GIB
    text = f"{free_gib:.1f} GiB free where {place.folder} lies; {users} learners need {need_gib:g}"
    if free_gib < need_gib:
        yield bad(text, "if all of them work on this file system: make room, or use scratch")
    else:
        yield good(text)


def _written(place: Workspace) -> str:
    """Why not, empty where it could. The blocks are really written: a quota counts nothing else."""
    try:
        place.state.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.state) as file:
            for _ in range(round(OF_A_LEARNER_GIB * 1024)):
                file.write(PIECE)
            file.flush()
    except OSError as error:
        if error.errno == errno.EDQUOT:
            return "your quota is used up"
        return error.strerror or str(error)
    return ""


def quota(place: Workspace) -> Iterator[Finding]:
    """What `quota` says, where there is one; other kinds have commands of their own."""
    command = shutil.which("quota")
    if command is None:
        return
    done = subprocess.run(
        [command, "-w", "-p"], capture_output=True, text=True, timeout=QUOTA_S, check=False
    )
    over = [line.strip() for line in done.stdout.splitlines() if "*" in line]
    if over:
        yield bad(f"over quota: {'; '.join(over)}", "free space there before the class")
    elif done.stdout.strip():
        yield good("within the quotas of this account (learners have their own)")


def memory(users: int, site: Site) -> Iterator[Finding]:
    """Where everybody has a box on this very machine, as on a hub."""
    if not site.box:
        return
    have_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    need_gib = users * MEMORY_OF_A_BOX_GIB
    text = f"{users} boxes on one machine need {need_gib:g} GiB; this one has {have_gib:.0f} GiB"
    text += f" and {cores} cores"
    if need_gib > have_gib:
        yield fair(text, "if all work here, some jobs will be killed: a larger machine, or pairs")
    elif cores is not None and cores < users:
        yield fair(
            text, f"if all work here at once, runs take up to {users / cores:.0f} times as long"
        )
    else:
        yield good(text)
