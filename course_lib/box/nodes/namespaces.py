"""The nodes of a job as namespaces (Linux).

A job has one user and one PID namespace. Each node has a network, host name, mount and IPC
namespace. The namespaces live as long as a process or a descriptor of the job. They have no names
in the file system, so no clean-up is needed.
"""

from __future__ import annotations

import os

from course_lib.box.nodes import link
from course_lib.box.processes import libc

OF_A_NODE = ("net", "uts", "ipc", "mnt")  # mnt last: it hides /proc and the working folder
NETWORK = "10.211"
PREFIX_BITS = 16


class NodeNamespaces:
    """Name, address and namespace descriptors of one node."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.descriptors: dict[str, int] = {}

    def enter(self) -> None:
        """Move the calling process onto the node. It loses its capabilities."""
        for kind in OF_A_NODE:
            libc.setns(self.descriptors[kind], libc.NAMESPACE_FLAGS[kind])
        settle()


def address(number: int) -> str:
    """Return the address of the node with this number (from 1). It is the same in every job."""
    return f"{NETWORK}.{number >> 8}.{number & 255}"


def settle() -> None:
    """Make a process that entered namespaces an ordinary process of its user again."""
    if os.getuid() != 0:
        libc.drop_capabilities()
    libc.prctl(libc.PR_SET_DUMPABLE, 1)  # entering cleared it, and /proc/self then belonged to root


def map_self(uid: int, gid: int) -> None:
    """Map one user and group without privileges. Both ids were read in the outer namespace."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def map_everyone(pid: int) -> bool:
    """Map all users unchanged, from outside, as root. Root's job keeps root's read access."""
    if os.getuid() != 0:
        return False
    try:
        for table in ("uid_map", "gid_map"):
            with open(f"/proc/self/{table}") as file:
                ranges = [line.split() for line in file]
            same = "".join(f"{inside} {inside} {count}\n" for inside, _, count in ranges)
            _write(f"/proc/{pid}/{table}", same)
    except OSError:  # root of a container without CAP_SETUID
        return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def build(nodes: list[NodeNamespaces], hosts_file: str, link_gbit: float) -> None:
    """Create the nodes' namespaces in the job's first process, and fill `descriptors`."""
    libc.unshare(libc.NEWNS | libc.NEWNET | libc.NEWUTS | libc.NEWIPC)
    libc.mount("none", "/", "", libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    if os.path.exists("/etc/hosts"):
        libc.mount(hosts_file, "/etc/hosts", flags=libc.MS_BIND)
    base = {kind: _open(kind) for kind in OF_A_NODE}
    networks = link.build([node.address for node in nodes], PREFIX_BITS, link_gbit)
    here = os.getcwd()
    for node, network in zip(nodes, networks, strict=True):
        node.descriptors["net"] = network
        libc.setns(network, libc.NEWNET)
        _furnish(node)
        for kind in OF_A_NODE:
            libc.setns(base[kind], libc.NAMESPACE_FLAGS[kind])
    os.chdir(here)
    for descriptor in base.values():
        os.close(descriptor)


def _furnish(node: NodeNamespaces) -> None:
    """Give the current node its own host name, shared memory and view of network devices."""
    libc.unshare(libc.NEWNS | libc.NEWUTS | libc.NEWIPC)
    libc.set_host_name(node.name)
    _try_mount("sysfs", "/sys", libc.MS_RDONLY)
    _try_mount("tmpfs", "/dev/shm")
    for kind in ("uts", "ipc", "mnt"):
        node.descriptors[kind] = _open(kind)


def _try_mount(kind: str, target: str, flags: int = 0) -> None:
    """Mount a file system if the container allows it. Jobs also run without it."""
    try:
        data = "mode=1777" if kind == "tmpfs" else ""
        libc.mount(kind, target, kind, flags | libc.MS_NOSUID | libc.MS_NODEV, data)
    except OSError:
        pass


def _open(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def hosts_text(names: list[str]) -> str:
    """Return a hosts file with all nodes of the cluster, including nodes of other jobs."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{address(number)}\t{name}" for number, name in enumerate(names, 1)]
    return "\n".join(lines) + "\n"
