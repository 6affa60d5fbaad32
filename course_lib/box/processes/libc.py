"""System calls that Python 3.11 does not offer (Linux)."""

from __future__ import annotations

import ctypes
import os
import sys

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACE_FLAGS = {
    "user": NEWUSER, "pid": NEWPID, "mnt": NEWNS, "uts": NEWUTS, "ipc": NEWIPC, "net": NEWNET,
}  # fmt: skip

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME = 1, 4, 15
PR_SET_CHILD_SUBREAPER = 36

_CAPABILITY_VERSION_3 = 0x20080522

AVAILABLE = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int = 0) -> None:
    _check(_libc.setns(descriptor, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    names = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    _check(_libc.mount(*names, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def set_host_name(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def prctl(option: int, value: int | bytes) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def reset_internal_signals() -> None:
    """Reset two internal signals of the C library, which posix_spawn leaves ignored."""
    number = {"x86_64": 13, "aarch64": 134}.get(os.uname().machine)
    if number is not None:
        default = (ctypes.c_ulong * 4)()
        for internal in (32, 33):
            _libc.syscall(number, internal, default, None, 8)


def drop_capabilities() -> None:
    """Drop capabilities as an exec would for a user other than root, in a process without exec."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
