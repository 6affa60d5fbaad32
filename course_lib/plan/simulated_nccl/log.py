"""`plan.nccl_log`: what NCCL would print on a cluster that one describes, plainly marked."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.plan.checks import PlanError, flag
from course_lib.plan.simulated_nccl.cluster import BETWEEN, INSIDE, NcclCluster, TreeNode
from course_lib.plan.simulated_nccl.lines import Writer
from course_lib.plan.simulated_nccl.wording import wording

MARK = "# SIMULATED by the course, not printed by NCCL: "


def nccl_log(
    nodes: int = 2,
    devices_per_node: int = 2,
    *,
    inside: str = "nvlink",
    between: str = "sockets",
    gpu_direct: bool = False,
    adapters: int = 1,
    version: str = "2.18",
    graph: bool = False,
) -> str:
    """The log of one all-reduce over all devices, with NCCL_DEBUG=INFO.

    `inside`: "nvlink", "pcie" (through a PCIe switch) or "memory" (through that of the node).
    `between`: "sockets" or "infiniband", with `adapters` network adapters in each node; with
    `gpu_direct` these read the devices' memory. `version`: "2.4", "2.7", "2.10", "2.18", "2.27".
    `graph` adds what NCCL_DEBUG_SUBSYS=INIT,GRAPH prints of each node. The lines are in order;
    in a real log those of different ranks are mixed.
    """
    cluster = NcclCluster(nodes, devices_per_node, inside, between, gpu_direct, adapters)
    if cluster.ranks == 1:
        raise PlanError("nodes 1 × devices_per_node 1 has nobody to talk to; use two devices")
    words, graph = wording(version), flag("graph", graph)
    if graph and words.is_oldest:
        raise PlanError(f'version "{version}" printed no graph; use "2.7" or newer, or graph=False')
    lines = [_mark(cluster, words.version), *_lines(Writer(cluster, words), graph)]
    return "\n".join(lines) + "\n"


def _mark(cluster: NcclCluster, version: str) -> str:
    parts = [f"{cluster.nodes} × {cluster.devices_per_node} devices", INSIDE[cluster.inside]]
    parts[1] += " inside a node"
    if cluster.nodes > 1:
        direct = " with GPUDirect RDMA" if cluster.gpu_direct else ""
        adapters = f" ({cluster.adapters} adapters a node)" if cluster.adapters > 1 else ""
        parts.append(f"{BETWEEN[cluster.between]}{direct}{adapters} between nodes")
    return f"{MARK}{', '.join(parts)}, in the words of NCCL {version}"


def _lines(writer: Writer, graph: bool) -> Iterator[str]:
    cluster, words = writer.cluster, writer.wording
    ranks, channels = range(cluster.ranks), range(cluster.channels)
    for rank in ranks:
        yield from writer.network(rank)
        if rank == 0:
            yield writer.version()
    if words.identity:
        yield from (writer.communicator(rank, "START") for rank in ranks)
    if graph:
        for rank in range(0, cluster.ranks, cluster.devices_per_node):
            yield from writer.graph(rank)
    if words.lazy:
        yield from (writer.place(rank) for rank in ranks)
    yield from (writer.ring(channel) for channel in channels)
    trees = [cluster.tree(c, words.mirrored, words.balanced) for c in channels]
    if words.has_trees:
        yield from (writer.trees(rank, [tree[rank] for tree in trees]) for rank in ranks)
    ready = [*_ready(writer)]
    yield from (
        [*ready, *_connections(writer, trees)]
        if words.lazy
        else [
            *_connections(writer, trees),
            *ready,
        ]
    )


def _ready(writer: Writer) -> Iterator[str]:
    for rank in range(writer.cluster.ranks):
        yield from writer.counts(rank)
    for rank in range(writer.cluster.ranks):
        yield writer.communicator(rank, "COMPLETE")


def _connections(writer: Writer, trees: list[list[TreeNode]]) -> Iterator[str]:
    cluster, words = writer.cluster, writer.wording
    channels = range(cluster.channels)
    ring = [edge for channel in channels for edge in cluster.ring_edges(channel)]
    tree = [edge for channel in channels for edge in cluster.tree_edges(trees[channel], channel)]
    uses = f", use ring PXN 0 GDR {int(cluster.gpu_direct)}" if words.lazy else ""
    says = words.has_trees and not words.both_ways
    for edges, end in ((ring, f"rings{uses}"), (tree if words.has_trees else [], "trees")):
        for rank in range(cluster.ranks):
            between = [edge for edge in edges if not cluster.is_inside(edge)]
            due = [edge for edge in between if edge.destination == rank]
            yield from (writer.link(edge, receives=True) for edge in due)
            yield from (writer.link(edge) for edge in edges if edge.source == rank)
            if says:
                yield writer.line(rank, f"Connected all {end}")
