"""Why this machine gives no namespaces, and what can be done about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

Read = Callable[[str], str]

DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"
UBUNTU = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
NUMBER = "/proc/sys/user/max_user_namespaces"
STATUS = "/proc/self/status"
FORBIDDEN = ("not permitted", "denied")
NO_KERNEL_PART = ("not supported", "No such device", "Unknown device type", "No such file")


def explain(error: str, read: Read, *, root: bool) -> tuple[str, str]:
    """Reason and cure for what a trial ended with; `read` gives the text of a file or nothing."""
    forbidden = any(word in error for word in FORBIDDEN)
    found = _by_a_switch(read, forbidden and not root)
    if forbidden:
        found = found or _by_a_container(error, read)
    if "network:" in error and any(word in error for word in NO_KERNEL_PART):
        found = found or (
            f"the kernel lacks a part that the link needs ({error})",
            "as root: modprobe -a bridge veth sch_tbf",
        )
    return found or (
        f"this kernel refuses namespaces ({error})",
        "use a Linux machine where `unshare --user --net true` works",
    )


def _by_a_switch(read: Read, forbidden_to_user: bool) -> tuple[str, str] | None:
    if read(NUMBER) == "0":
        return _switch("user.max_user_namespaces", "0", "15000")
    if forbidden_to_user and read(DEBIAN) == "0":
        return _switch("kernel.unprivileged_userns_clone", "0", "1")
    if forbidden_to_user and read(UBUNTU) == "1":
        return _switch("kernel.apparmor_restrict_unprivileged_userns", "1", "0")
    return None


def _by_a_container(error: str, read: Read) -> tuple[str, str] | None:
    if "unshare" in error and "Seccomp:\t2" in read(STATUS):
        return (
            "the seccomp profile of this container forbids new namespaces",
            "start the container with --security-opt seccomp=unconfined"
            " --security-opt systempaths=unconfined (Kubernetes: seccompProfile Unconfined,"
            " procMount Unmasked)",
        )
    if "mount /proc" in error:
        return (
            "this container hides parts of /proc, which then cannot be mounted anew",
            "start the container with --security-opt systempaths=unconfined"
            " (Kubernetes: procMount: Unmasked)",
        )
    return None


def _switch(name: str, now: str, better: str) -> tuple[str, str]:
    return f"{name} is {now}", f"as root: sysctl -w {name}={better}"


def of_platform() -> tuple[str, str]:
    return (
        f"{sys.platform} has no namespaces",
        "use Linux, for example in a virtual machine",
    )


def read_file(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def explain_here(error: str) -> tuple[str, str]:
    return explain(error, read_file, root=os.getuid() == 0)
