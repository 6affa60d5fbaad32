"""A test whether an ordinary user can create nodes from namespaces on this machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from course_lib.box import settings, state_folder

Read = Callable[[str], str]

NAMESPACES, FLAT = "namespaces", "flat"
CACHE = "mode.txt"
TRIED_AGAIN_S = 60.0


def describe(box: settings.Settings | None = None) -> tuple[str, str]:
    """Return `namespaces`, or `flat` with reason and cure in one line.

    The test runs once per boot and box. After a refusal it runs again, because the cause may be
    gone.
    """
    box = box or settings.load()
    if box.mode != "auto":
        forced = _sentence("box.toml sets mode = 'flat'", "set mode = 'auto' in box.toml")
        return box.mode, forced if box.mode == FLAT else ""
    path = os.path.join(settings.state_home(), CACHE)
    if known := _known(path):
        return known
    why = refusal()
    mode = FLAT if why else NAMESPACES
    state_folder.keep(path, f"{stamp()}\n{mode}\n{why}")
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
    """Delete the stored result for this machine after it turned out to be wrong."""
    from contextlib import suppress

    with suppress(OSError):
        os.unlink(os.path.join(settings.state_home(), CACHE))


def stamp() -> str:
    """Return a text that differs between boots, containers and users."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"2 {boot} {os.getuid()} {os.readlink('/proc/self/ns/user')}"
    except OSError:
        return f"2 {sys.platform} {os.getuid()}"


def _sentence(reason: str, cure: str) -> str:
    return f"{reason}. Cure: {cure}."


def refusal() -> str:
    """Create and release a job's nodes. Return why this fails, or "" if it works."""
    if sys.platform != "linux":
        return _sentence(
            f"{sys.platform} has no namespaces", "use Linux, for example in a virtual machine"
        )
    error = _trial()
    return _sentence(*explain(error, read_file, root=os.getuid() == 0)) if error else ""


def _trial() -> str:
    """Create nodes in a separate process, and return the error."""
    import subprocess

    from course_lib.box.processes import control

    command = [sys.executable, control.start_file(), control.package_root(), "trial"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the trial ended with code {done.returncode}"


DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"
UBUNTU = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
NUMBER = "/proc/sys/user/max_user_namespaces"
STATUS = "/proc/self/status"
NO_KERNEL_PART = ("not supported", "No such device", "Unknown device type", "No such file")


def explain(error: str, read: Read, *, root: bool) -> tuple[str, str]:
    """Return reason and cure for a trial's error. `read` returns the text of a file, or ""."""
    forbidden = "not permitted" in error or "denied" in error
    for path, now, better, applies in (
        (NUMBER, "0", "15000", True),
        (DEBIAN, "0", "1", forbidden and not root),
        (UBUNTU, "1", "0", forbidden and not root),
    ):
        if applies and read(path) == now:
            name = path.removeprefix("/proc/sys/").replace("/", ".")
            return f"{name} is {now}", f"as root: sysctl -w {name}={better}"
    if forbidden and "unshare" in error and "Seccomp:\t2" in read(STATUS):
        return (
            "the seccomp profile of this container forbids new namespaces",
            "start the container with --security-opt seccomp=unconfined"
            " --security-opt systempaths=unconfined (Kubernetes: seccompProfile Unconfined,"
            " procMount Unmasked)",
        )
    if forbidden and "mount /proc" in error:
        return (
            "this container hides parts of /proc, so no node can mount /proc again",
            "start the container with --security-opt systempaths=unconfined"
            " (Kubernetes: procMount: Unmasked)",
        )
    if "network:" in error and any(word in error for word in NO_KERNEL_PART):
        return (
            f"the kernel lacks a part that the link needs ({error})",
            "as root: modprobe -a bridge veth sch_tbf",
        )
    return (
        f"this kernel refuses namespaces ({error})",
        "use a Linux machine where `unshare --user --net true` works",
    )


def read_file(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
