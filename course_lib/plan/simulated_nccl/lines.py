"""Single lines of a simulated log of NCCL, each behind the name of who prints it."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.simulated_nccl.cluster import Edge, NcclCluster, TreeNode
from course_lib.plan.simulated_nccl.wording import Wording

RANKS_OF_OLD_RING = 20
CHARACTERS_OF_NEW_RING = 127
FIRST_PID, PIDS_APART = 40100, 7
THREAD = 40
"""From the number of a process to that of the thread which connects."""
NVLINK_GB_S, PCI_GB_S = 240.0, 24.0


@dataclass(frozen=True)
class Writer:
    cluster: NcclCluster
    wording: Wording

    def line(self, rank: int, text: str, *, by_thread: bool = True) -> str:
        device = self.cluster.device_of(rank)
        pid = FIRST_PID + PIDS_APART * device
        who = f"{host(self.cluster.node_of(rank))}:{pid}:{pid + THREAD * by_thread} [{device}]"
        return f"{who} NCCL INFO {text}"

    def version(self) -> str:
        text = f"NCCL version {self.wording.version}"
        return self.line(0, text, by_thread=False) if self.wording.lazy else text

    def network(self, rank: int) -> list[str]:
        address, wording = self._address(rank), self.wording
        colon = ":" if wording.lazy else " :"
        first = "[0]" if wording.both_ways or wording.is_oldest else ""
        texts = [f"Bootstrap{colon} Using {first}{address}", *wording.plugin]
        if self.cluster.between == "infiniband":
            found = " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(self.cluster.adapters))
            ordering = " [RO]; OOB" if wording.identity else " ; OOB"
            texts.append(f"NET/IB : Using {found}{ordering} {address}")
        else:
            texts += ["NET/IB : No device found.", f"NET/Socket : Using [0]{address}"]
        if not wording.is_oldest:
            name = "IB" if self.cluster.between == "infiniband" else "Socket"
            texts.append(f"Using network {name}")
        return [self.line(rank, text, by_thread=False) for text in texts]

    def _address(self, rank: int) -> str:
        number = self.cluster.node_of(rank) + 1
        return f"eth0:10.0.{number // 256}.{number % 256}<0>"

    def communicator(self, rank: int, state: str) -> str:
        device, wording = self.cluster.device_of(rank), self.wording
        head = "ncclCommInitRankConfig comm" if wording.lazy else "comm"
        text = f"{head} {self._pointer(rank)} rank {rank} nranks {self.cluster.ranks}"
        text += f" cudaDev {device}"
        if wording.identity or wording.is_oldest:
            text += f" nvmlDev {device}"
        if not wording.is_oldest:
            text += f" busId {bus_id(device)}"
        if wording.identity:
            text += f" commId 0x{0x5C00_0000_0000_0000 + self.cluster.ranks:x}"
        return self.line(rank, f"{text} - Init {state}")

    def _pointer(self, rank: int) -> str:
        return f"0x{0x5580_0000_0000 + 0x1_0000 * (rank + 1):x}"

    def place(self, rank: int) -> str:
        cluster = self.cluster
        return self.line(
            rank,
            f"comm {self._pointer(rank)} rank {rank} nRanks {cluster.ranks} nNodes {cluster.nodes} "
            f"localRanks {cluster.devices_per_node} localRank {cluster.device_of(rank)} MNNVL 0",
        )

    def ring(self, channel: int) -> str:
        order = self.cluster.ring(channel)
        total = "" if self.wording.is_oldest else f"/{self.cluster.channels:02d}"
        text = f"Channel {channel:02d}{total} :"
        if not self.wording.long_rings:
            text += " " + "".join(f" {rank:3d}" for rank in order[:RANKS_OF_OLD_RING])
            return self.line(0, text)
        width = len(str(self.cluster.ranks - 1))
        text += "".join(f" {rank:>{width}}" for rank in order)
        if len(text) > CHARACTERS_OF_NEW_RING:
            text = text[: CHARACTERS_OF_NEW_RING - 3] + "..."
        return self.line(0, text)

    def trees(self, rank: int, nodes: list[TreeNode]) -> str:
        """`nodes`: where this rank stands in the tree of each channel."""
        parts = []
        for channel, node in enumerate(nodes):
            up = -1 if node.parent is None else node.parent
            down = "/".join(map(str, [*node.children, -1, -1, -1][:3]))
            other = f"|{up}->{rank}->{down}" if self.wording.both_ways else ""
            parts.append(f"[{channel}] {down}->{rank}->{up}{other}")
        return self.line(rank, f"Trees {' '.join(parts)}")

    def link(self, edge: Edge, *, receives: bool = False) -> str:
        """Inside a node the sender prints it, between nodes both ends do."""
        inside, wording = self.cluster.is_inside(edge), self.wording
        through_memory = inside and self.cluster.inside == "memory"
        sub_channel = "/0" if wording.identity and not through_memory else ""
        word = "Ring" if wording.is_oldest else "Channel"
        ends = f"{self._end(edge.source, inside)} -> {self._end(edge.destination, inside)}"
        direction = "" if inside else " [receive]" if receives else " [send]"
        text = f"{word} {edge.channel:02d}{sub_channel} : {ends}{direction} via {self._via(edge)}"
        return self.line(edge.destination if receives else edge.source, text)

    def _end(self, rank: int, inside: bool) -> str:
        if self.wording.is_oldest and not inside:
            return str(rank)
        device = self.cluster.device_of(rank)
        return f"{rank}[{bus_id(device) if self.wording.by_bus else device}]"

    def _via(self, edge: Edge) -> str:
        cluster = self.cluster
        if not cluster.is_inside(edge):
            name = "IB" if cluster.between == "infiniband" else "Socket"
            direct = "/GDRDMA" if cluster.gpu_direct else ""
            return f"NET/{name}/{cluster.adapter_of(edge.channel)}{direct}"
        if cluster.inside == "memory":
            return self.wording.memory
        reads = cluster.inside == "nvlink" and self.wording.reads
        return f"{self.wording.peer}/read" if reads else self.wording.peer

    def counts(self, rank: int) -> list[str]:
        wording, channels, ranks = self.wording, self.cluster.channels, self.cluster.ranks
        if wording.is_oldest:
            return [self.line(rank, "Using 256 threads, Min Comp Cap 7, Trees disabled")]
        last = "512 | 512" if wording.identity else "8/8/64" if wording.both_ways else "8/8/512"
        collnet = f" {channels} collnet channels," if wording.lazy else ""
        nvls = " 0 nvls channels," if wording.identity else ""
        texts = (
            f"threadThresholds 8/8/64 | {8 * ranks}/8/64 | {last}",
            f"{channels} coll channels,{collnet}{nvls} {channels} p2p channels, "
            f"{channels if self.cluster.nodes == 1 else 1} p2p channels per peer",
        )
        return [self.line(rank, text) for text in texts]

    def graph(self, rank: int) -> list[str]:
        """What NCCL_DEBUG_SUBSYS=GRAPH adds: the node as NCCL found it, and what it chose."""
        cluster, wording = self.cluster, self.wording
        nvlink = cluster.inside == "nvlink" and cluster.devices_per_node > 1
        best = NVLINK_GB_S if nvlink else PCI_GB_S
        names = ("maxBw", "totalBw") if wording.identity else ("maxWidth", "totalWidth")
        texts = [f"=== System : {names[0]} {best} {names[1]} {best} ===", "CPU/0 (1/1/2)"]
        each = NVLINK_GB_S / max(cluster.devices_per_node - 1, 1)
        for device in range(cluster.devices_per_node):
            number = rank - cluster.device_of(rank) + device
            texts.append(f"+ PCI[{PCI_GB_S}] - GPU/{bus_id(device).upper()} ({number})")
            others = [other for other in range(cluster.devices_per_node) if other != device]
            for other in others if nvlink else []:
                texts.append(f"{' ' * 14}+ NVL[{each:.1f}] - GPU/{bus_id(other).upper()}")
        texts += ["=" * 42, self._pattern(nvlink)]
        return [self.line(rank, text) for text in texts]

    def _pattern(self, nvlink: bool) -> str:
        kind = "NVL" if nvlink else "PIX" if self.cluster.inside == "pcie" else "PHB"
        word = "bw" if self.wording.identity else "speed"
        speed = f"{NVLINK_GB_S / 12 if nvlink else PCI_GB_S / 2:.6f}"
        count = max(self.cluster.channels // 2, 1)
        return (
            f"Pattern 4, crossNic 0, nChannels {count}, {word} {speed}/{speed}, "
            f"type {kind}/PIX, sameChannels 1"
        )


def host(node: int) -> str:
    return f"node{node + 1}"


def bus_id(device: int) -> str:
    return f"{0x7 + 0x10 * device:x}000"
