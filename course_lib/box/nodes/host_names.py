"""Flat mode: a library tells the programs of a job the names of nodes.

Without namespaces a node has neither a host name nor an address. A program that should connect to
`node1` would not find it. `host_names.c` replaces functions of the C library in the processes of a
job. It is compiled on the machine itself, when a job first needs it.
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
# Networks within 127/8, one per box, and addresses in each, one per node.
NETWORKS, ADDRESSES = 16384, 1024
GLOO, LOOPBACK = b"GLOO_SOCKET_IFNAME", b"lo0" if sys.platform == "darwin" else b"lo"


def library(box: settings.Settings, stamp: str) -> str:
    """Return the library's path, compiled if needed; "" if this is not possible.

    `stamp` identifies the running system. A library from a different system may not load here.
    """
    if sys.platform != "linux":
        return ""
    nodes = "".join(f"{name}\\0" for name in box.node_names)
    with open(SOURCE, "rb") as file:
        place = network(settings.state_home())
        mark = crc32(file.read() + f"{stamp} {place} {nodes}".encode())
    path = os.path.join(settings.state_home(), f"names-{mark:08x}.so")
    usable = not set(path) & set(' :"\\')  # separators of the variable, or ends of a C text
    return path if usable and (os.path.exists(path) or _compile(path, nodes, place)) else ""


def network(home: str) -> int:
    """Return the first address of a box's network. The first network belongs to localhost."""
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
    names.append(f'-DCALLS="{path.removesuffix("so")}calls"')
    command = [compiler, "-shared", "-fPIC", "-O2", *names, "-o", made, SOURCE, "-ldl"]
    try:
        subprocess.run(command, capture_output=True, timeout=COMPILING_S, check=True)
        os.replace(made, path)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def with_preload(environment: dict[bytes, bytes], path: str) -> dict[bytes, bytes]:
    """Return the environment with the library before other libraries that the program preloads."""
    if not path:
        return environment
    name, own = VARIABLE.encode(), os.fsencode(path)
    given = environment.get(name, b"")
    if own in given.replace(b" ", b":").split(b":"):
        return environment
    return {**environment, name: own + (b":" + given if given else b"")}


def on_loopback(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Make gloo use the loopback interface, not the machine's network address."""
    return {GLOO: LOOPBACK, **environment}
