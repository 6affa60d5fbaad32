"""The nodes of a job as namespaces (Linux).

One user and one PID namespace per job, and per node a network, host name, mount and IPC
namespace. They live as long as a process or a descriptor of the job does; nothing is named in
the file system, so nothing is left to clean.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from course_lib.box.nodes import link, own_commands
from course_lib.box.processes import libc

OF_A_NODE = ("net", "uts", "ipc", "mnt")  # mnt last: it takes /proc and the working folder away
NETWORK = "10.211"
PREFIX_BITS = 16


class Mounts(NamedTuple):
    """What the nodes of a job see otherwise than the machine."""

    folder: str
    """Of the job, with the commands of the box."""
    binds: list[tuple[str, str]]
    """Files in place of others."""
    command_folders: list[str]
    """Folders in which the commands of the box come first."""


class NodeNamespaces:
    """Descriptors of one node's namespaces, and what it is called."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.descriptors: dict[str, int] = {}

    def enter(self) -> None:
        """Moves the calling process onto the node; its capabilities end here."""
        for kind in OF_A_NODE:
            libc.setns(self.descriptors[kind], libc.NAMESPACE_FLAGS[kind])
        settle()


def address(number: int) -> str:
    """Of the node with this number (from 1) in the cluster; the same in every job."""
    return f"{NETWORK}.{number >> 8}.{number & 255}"


def settle() -> None:
    """Makes a process that entered namespaces an ordinary one of its user."""
    if os.getuid() != 0:
        libc.drop_capabilities()
    libc.prctl(libc.PR_SET_DUMPABLE, 1)  # entering cleared it, and /proc/self became root's


def leave_for_job() -> None:
    """First half, before the fork of the job's first process: a user and a PID namespace."""
    libc.unshare(libc.NEWUSER | libc.NEWPID)


def map_self(uid: int, gid: int) -> None:
    """One user and group, unprivileged; asked before the caller left, as it has none by now."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def map_everyone(pid: int) -> bool:
    """All users as they are, from outside, by root: its job may read what root may read."""
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


def build(nodes: list[NodeNamespaces], mounts: Mounts, link_gbit: float) -> bool:
    """Second half, in the job's first process: fills `descriptors` of every node. False where not
    every PATH of the job leads to the commands of the box."""
    libc.unshare(libc.NEWNS | libc.NEWNET | libc.NEWUTS | libc.NEWIPC)
    libc.mount("none", "/", "", libc.MS_REC | libc.MS_PRIVATE)
    libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    for source, target in mounts.binds:
        libc.mount_over_link(source, target)
    covered = own_commands.cover(mounts.folder, mounts.command_folders)
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
    return covered


def _furnish(node: NodeNamespaces) -> None:
    """Host name, shared memory and network devices of its own for the node that we are on."""
    libc.unshare(libc.NEWNS | libc.NEWUTS | libc.NEWIPC)
    libc.set_host_name(node.name)
    _try_mount("sysfs", "/sys", libc.MS_RDONLY)
    _try_mount("tmpfs", "/dev/shm")
    for kind in ("uts", "ipc", "mnt"):
        node.descriptors[kind] = _open(kind)


def _try_mount(kind: str, target: str, flags: int = 0) -> None:
    """Convenience only: containers that hide parts of /sys may refuse this, and jobs still run."""
    try:
        data = "mode=1777" if kind == "tmpfs" else ""
        libc.mount(kind, target, kind, flags | libc.MS_NOSUID | libc.MS_NODEV, data)
    except OSError:
        pass


def _open(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def hosts_text(names: list[str]) -> str:
    """Every node of the cluster resolves, also those that this job does not have."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{address(number)}\t{name}" for number, name in enumerate(names, 1)]
    return "\n".join(lines) + "\n"
