"""NCCL logs of example clusters, selected by a description of the cluster.

The text files in this folder were generated like logs of NCCL 2.27: rings, trees and transports are
those that NCCL would choose, and each kind of line occurs in a real log. The first line of each
file says that no machine printed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from course_lib.plan.checks import PlanError, keep_flags, keep_whole, one_of
from course_lib.words import _

FOLDER = Path(__file__).parent
INSIDE = ("nvlink", "pcie", "memory")
BETWEEN = ("sockets", "infiniband")
MOST_DEVICES_PER_NODE = 16


@dataclass(frozen=True)
class NcclCluster:
    """Connections between the devices of a cluster.

    `inside` a node: "nvlink", "pcie" (through a PCIe switch) or "memory" (through host memory).
    `between` nodes: "sockets" or "infiniband", with `adapters` network adapters in each node. With
    `gpu_direct` the adapters read the devices' memory."""

    nodes: int = 2
    devices_per_node: int = 2
    inside: str = "nvlink"
    between: str = "sockets"
    gpu_direct: bool = False
    adapters: int = 1

    def __post_init__(self) -> None:
        keep_whole(self, "nodes", "devices_per_node", "adapters")
        keep_flags(self, "gpu_direct")
        one_of("inside", self.inside, INSIDE)
        one_of("between", self.between, BETWEEN)
        if self.devices_per_node > MOST_DEVICES_PER_NODE:
            raise PlanError(
                _(
                    "devices_per_node {devices_per_node} is more than a node holds; use "
                    "{most_devices_per_node} or fewer",
                    devices_per_node=self.devices_per_node,
                    most_devices_per_node=MOST_DEVICES_PER_NODE,
                )
            )
        if self.adapters > self.devices_per_node:
            raise PlanError(
                _(
                    "adapters {adapters} is more than devices_per_node "
                    "{devices_per_node}; use {devices_per_node} or fewer",
                    adapters=self.adapters,
                    devices_per_node=self.devices_per_node,
                )
            )
        if self.gpu_direct and self.between != "infiniband":
            raise PlanError(
                _(
                    "gpu_direct lets the network adapter read a device's memory, which "
                    'sockets cannot; use between="infiniband" or gpu_direct=False'
                )
            )

    @property
    def file(self) -> Path:
        """Return the path of the cluster's log, whether or not the file exists."""
        direct = "-direct" if self.gpu_direct else ""
        adapters = f"-{self.adapters}-adapters" if self.adapters > 1 else ""
        shape = f"{self.nodes}x{self.devices_per_node}"
        return FOLDER / f"{shape}-{self.inside}-{self.between}{direct}{adapters}.txt"


def nccl_log(
    nodes: int = 2,
    devices_per_node: int = 2,
    *,
    inside: str = "nvlink",
    between: str = "sockets",
    gpu_direct: bool = False,
    adapters: int = 1,
) -> str:
    """Return the log of one all-reduce over all devices of a cluster, with NCCL_DEBUG=INFO.

    `NcclCluster` explains the arguments. Lines are grouped by rank; real logs mix the ranks."""
    cluster = NcclCluster(nodes, devices_per_node, inside, between, gpu_direct, adapters)
    if not cluster.file.is_file():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.txt")))
        text = _("no log of the cluster {name} is kept; use one of {known}",
                 name=cluster.file.stem, known=known)  # fmt: skip
        raise PlanError(text)
    return cluster.file.read_text(encoding="utf-8")
