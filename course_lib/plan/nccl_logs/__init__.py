"""Logs of NCCL for clusters that nobody has at hand, chosen by a description of the cluster.

The text files beside this one were generated after real logs of NCCL 2.27: rings, trees and roads
are those that NCCL would choose, and each kind of line stands in a real log. No machine printed
them, and the first line of each says so.
"""

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
    """The roads between the devices of a cluster.

    `inside` a node: "nvlink", "pcie" (through a PCIe switch) or "memory" (through the memory of
    the node). `between` the nodes: "sockets" or "infiniband", with `adapters` network adapters in
    each node; with `gpu_direct` these read the devices' memory.
    """

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
        """The name of its log, whether there is one or not."""
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
    """The log of one all-reduce over all devices of a cluster, with NCCL_DEBUG=INFO.

    The words are those of `NcclCluster`. The log was generated after real ones; its lines are in
    order, while in a real log those of different ranks are mixed.
    """
    cluster = NcclCluster(nodes, devices_per_node, inside, between, gpu_direct, adapters)
    if not cluster.file.is_file():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.txt")))
        text = _("no log of the cluster {name} is kept; use one of {known}",
                 name=cluster.file.stem, known=known)  # fmt: skip
        raise PlanError(text)
    return cluster.file.read_text(encoding="utf-8")
