"""Times of collectives: α–β over the slowest link of a group, and on shared processors a wait for
each step."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.ranks import devices_of_group_per_node, stride


@dataclass(frozen=True)
class Group:
    """Group of `size` ranks, `per_node` of them on each node. Its ranks extend over `reach` nodes
    (0: the nodes with members)."""

    size: int
    per_node: int
    reach: int = 0

    @property
    def nodes(self) -> int:
        return ceil(self.size / self.per_node)


def group_of(layout: Layout, cluster: Cluster, dimension: str) -> Group:
    size = {"tp": layout.tensor, "dp": layout.data, "cp": layout.context, "pp": layout.pipeline}
    per_node = devices_of_group_per_node(layout, dimension, cluster.devices_per_node)
    reach = ceil(stride(layout, dimension) * size[dimension] / cluster.devices_per_node)
    return Group(size[dimension], per_node, reach)


def bytes_per_s(cluster: Cluster, group: Group) -> float:
    """Return the one-way bandwidth of a ring through the group. Between nodes, the members on a
    node combine their shares of its network, up to the bandwidth of one link inside the node."""
    inside = cluster.within.gb_per_s * 1e9
    if not cluster.switched and 1 < group.per_node < cluster.devices_per_node:
        # Without a switch, a device's bandwidth is divided among its peers.
        inside *= (group.per_node - 1) / (cluster.devices_per_node - 1)
    if group.nodes == 1:
        return inside
    share = cluster.share_over(max(group.reach, group.nodes))
    if cluster.shared_link:
        share /= cluster.devices_per_node
    pooled = group.per_node * cluster.across.gb_per_s * 1e9 * share
    return pooled if group.per_node == 1 else min(inside, pooled)


def _turns_s(cluster: Cluster, turns: float) -> float:
    return turns * cluster.turn_us * 1e-6


def gather_turns_s(cluster: Cluster, group: Group) -> float:
    """Return the seconds until every member has had its turn on a processor."""
    return _turns_s(cluster, group.size)


def reduce_turns_s(cluster: Cluster, group: Group) -> float:
    """Return the waits of an all-reduce: one per step, which needs the previous step."""
    return _turns_s(cluster, 2 * (group.size - 1))


def _step_s(cluster: Cluster, group: Group) -> float:
    """Return the latency of a ring's step; hops run in parallel, so the slowest counts."""
    link = cluster.within if group.nodes == 1 else cluster.across
    return link.latency_us * 1e-6


def ring_latency_s(cluster: Cluster, group: Group) -> float:
    """Return the latency of one pass round the ring, which grows with the number of ranks."""
    return (group.size - 1) * _step_s(cluster, group)


def all_gather_s(cluster: Cluster, group: Group, size_bytes: float) -> float:
    """Return the seconds to gather `size_bytes`, the size of the whole result."""
    if group.size == 1:
        return 0.0
    return gather_turns_s(cluster, group) + _round_s(cluster, group, size_bytes)


def _round_s(cluster: Cluster, group: Group, size_bytes: float) -> float:
    """Return the seconds of one pass round the ring."""
    share = (group.size - 1) / group.size
    return ring_latency_s(cluster, group) + share * size_bytes / bytes_per_s(cluster, group)


def exchange_s(
    cluster: Cluster, group: Group, token_bytes: float, copies: int, node_share: float = 1.0
) -> float:
    """Return the seconds that a rank needs to send `copies` of its tokens to evenly chosen ranks. A
    token crosses to another node once, and the copies are made there; `node_share` limits the
    nodes that one token reaches. Bytes for other nodes cross each device's own share of the
    network, in turn with the rest."""
    if group.size == 1:
        return 0.0
    inside = copies * (group.per_node - 1) / group.per_node
    seconds = inside * token_bytes / bytes_per_s(cluster, Group(group.per_node, group.per_node))
    if group.nodes > 1:
        nodes = ceil(group.nodes * node_share)
        reached = nodes * (1 - (1 - 1 / nodes) ** copies) * (1 - 1 / group.nodes)
        one_each = Group(group.nodes, 1, group.reach)
        seconds += reached * token_bytes / bytes_per_s(cluster, one_each)
    return gather_turns_s(cluster, group) + _step_s(cluster, group) + seconds


def reduce_scatter_s(
    cluster: Cluster, group: Group, size_bytes: float, by_reducing: bool = False
) -> float:
    """Return the all-gather's time; with gloo, the time of an all-reduce of the whole tensor."""
    whole = ring_all_reduce_s if by_reducing else all_gather_s
    return whole(cluster, group, size_bytes)


def ring_all_reduce_s(cluster: Cluster, group: Group, size_bytes: float) -> float:
    """Return the seconds of two passes round the ring: reduce-scatter, then all-gather."""
    if group.size == 1:
        return 0.0
    return reduce_turns_s(cluster, group) + 2 * _round_s(cluster, group, size_bytes)


def all_reduce_s(cluster: Cluster, group: Group, size_bytes: float) -> float:
    """Return the time of a ring or, between nodes, a tree of single members if it is faster. A tree
    has few steps but moves all bytes twice through every node."""
    if group.size == 1:
        return 0.0
    turns = reduce_turns_s(cluster, group)
    if group.nodes == 1:
        steps = 2 * (group.size - 1) * cluster.within.latency_us * 1e-6
        moved = 2 * (group.size - 1) / group.size * size_bytes
        gain = cluster.reduce_gain if group.size > 2 else 1.0
        return turns + steps + moved / (bytes_per_s(cluster, group) * gain)
    inside = 2 * (group.per_node - 1) * cluster.within.latency_us * 1e-6
    steps = 2 * ceil(log2(group.nodes)) * cluster.across.latency_us * 1e-6
    tree = turns + inside + steps + 2 * size_bytes / bytes_per_s(cluster, group)
    return min(ring_all_reduce_s(cluster, group, size_bytes), tree)


def send_s(cluster: Cluster, crosses_nodes: bool, size_bytes: float) -> float:
    link = cluster.across if crosses_nodes else cluster.within
    return (
        _turns_s(cluster, c.MESSAGE_TURNS)
        + link.latency_us * 1e-6
        + size_bytes / (link.gb_per_s * 1e9)
    )
