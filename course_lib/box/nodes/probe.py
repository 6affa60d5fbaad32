"""Does this machine let an ordinary user make nodes out of namespaces?"""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import settings
from course_lib.box.queue import private_folder

NAMESPACES, FLAT = "namespaces", "flat"
CACHE = "mode.txt"
TRIED_AGAIN_S = 60.0


def describe(box: settings.Settings | None = None) -> tuple[str, str]:
    """`namespaces` or `flat`, and for the latter reason and cure in one line.

    Tried once per boot and box; a refusal is tried again, since it may have been cured.
    """
    box = box or settings.load()
    if box.mode != "auto":
        forced = _sentence("box.toml says mode = 'flat'", "say mode = 'auto' there")
        return box.mode, forced if box.mode == FLAT else ""
    path = os.path.join(settings.state_home(), CACHE)
    if known := _known(path):
        return known
    why = refusal()
    mode = FLAT if why else NAMESPACES
    private_folder.keep(path, f"{stamp()}\n{mode}\n{why}")
    return mode, why


def _known(path: str) -> tuple[str, str] | None:
    try:
        with open(path) as file:
            of, mode, why = file.read().split("\n", 2)
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return None
    fresh = mode == NAMESPACES or 0 <= age_s < TRIED_AGAIN_S
    return (mode, why) if of == stamp() and fresh else None


def forget() -> None:
    """What was known of this machine turned out to be wrong."""
    from contextlib import suppress

    with suppress(OSError):
        os.unlink(os.path.join(settings.state_home(), CACHE))


def stamp() -> str:
    """Changes with the kernel that answers: another boot, another container, another user."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"2 {boot} {os.getuid()} {os.readlink('/proc/self/ns/user')}"
    except OSError:
        return f"2 {sys.platform} {os.getuid()}"


def _sentence(reason: str, cure: str) -> str:
    return f"{reason}. Cure: {cure}."


def refusal() -> str:
    """Why nodes cannot be made here; empty if they can. Makes a job's nodes and lets them go."""
    from course_lib.box.nodes import refused

    if sys.platform != "linux":
        return _sentence(*refused.of_platform())
    error = _trial()
    return _sentence(*refused.explain_here(error)) if error else ""


def _trial() -> str:
    """What making nodes fails with, in a process of its own."""
    import subprocess

    from course_lib.box.processes import detached

    command = [sys.executable, detached.start_file(), detached.package_root(), "trial"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the trial ended with code {done.returncode}"
