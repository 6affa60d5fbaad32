"""Flat mode: nodes that are only names, made known to the programs of a job by a library.

Without namespaces a node has neither a host name nor an address, and a program that is told to
meet at `node1` would not find it. `host_names.c` answers for the C library in the processes of a
job; it is compiled on the machine itself, the first time that a job needs it.
"""

from __future__ import annotations

import os
import sys
from zlib import crc32

from course_lib.box import settings

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "host_names.c")
VARIABLE = "LD_PRELOAD"
COMPILERS = ("cc", "gcc", "clang")
COMPILING_S = 60.0
NETWORKS, ADDRESSES = 16384, 1024
"""Parts of 127/8, one for a box, and how many addresses each has, one for a node."""
GLOO, LOOPBACK = b"GLOO_SOCKET_IFNAME", b"lo0" if sys.platform == "darwin" else b"lo"


def library(box: settings.Settings, stamp: str) -> str:
    """Its path, compiled if need be; empty where that cannot be done.

    `stamp` is that of the running system: a library of another one may not load here.
    """
    if sys.platform != "linux":
        return ""
    nodes = "".join(f"{name}\\0" for name in box.node_names)
    with open(SOURCE, "rb") as file:
        place = network(settings.state_home())
        mark = crc32(file.read() + f"{stamp} {place} {nodes}".encode())
    path = os.path.join(settings.state_home(), f"names-{mark:08x}.so")
    usable = " " not in path and ":" not in path  # what parts the entries of the variable
    return path if usable and (os.path.exists(path) or _compile(path, nodes, place)) else ""


def network(home: str) -> int:
    """What is before the addresses of a box's nodes, as a number. The first part is localhost's."""
    mark = crc32(f"{os.getuid()} {os.path.realpath(home)}".encode())
    return (127 << 24) + (mark % (NETWORKS - 1) + 1) * ADDRESSES


def _compile(path: str, nodes: str, place: int) -> bool:
    import shutil
    import subprocess

    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return False
    made = f"{path}.{os.getpid()}"
    names = [f'-DNODES="{nodes}"', f"-DNETWORK={place}U", f"-DADDRESSES={ADDRESSES}U"]
    options = ["-shared", "-fPIC", "-O2", *names, "-o", made]
    try:
        subprocess.run(
            [compiler, *options, SOURCE, "-ldl"],
            capture_output=True,
            timeout=COMPILING_S,
            check=True,
        )
        os.replace(made, path)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def added_to(environment: dict[bytes, bytes], path: str, callers: str = "") -> dict[bytes, bytes]:
    """The environment with the library before those that the program asked for itself; `callers`
    is the folder of the job in which its processes note whom they call."""
    if not path:
        return environment
    environment = {**environment, b"COURSE_BOX_CALLERS": os.fsencode(callers)}
    name, own = VARIABLE.encode(), os.fsencode(path)
    given = environment.get(name, b"")
    if own in given.replace(b" ", b":").split(b":"):
        return environment
    return {**environment, name: own + (b":" + given if given else b"")}


def on_loopback(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Where there is no library, what gloo can be told: it would take the address that the machine
    has in its network."""
    return {GLOO: LOOPBACK, **environment}
