"""A cluster as NCCL sees it: which devices follow each other in its rings and trees.

Who is linked with whom is worked out as NCCL does it: rings go through the nodes in order; trees
join the nodes as a balanced binary tree, a second one the other way round, and go on inside each
node as a chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from course_lib.plan.checks import PlanError, keep_flags, keep_whole, one_of

INSIDE = {"nvlink": "NVLink", "pcie": "PCIe", "memory": "the node's memory"}
BETWEEN = {"sockets": "sockets", "infiniband": "InfiniBand"}
MOST_RANKS = 1024
MOST_DEVICES_PER_NODE = 16
CHANNELS_IN_ONE_NODE = {"nvlink": 16, "pcie": 4, "memory": 2}


@dataclass(frozen=True)
class Edge:
    """One direction between two ranks, on one channel."""

    channel: int
    source: int
    destination: int


@dataclass(frozen=True)
class TreeNode:
    rank: int
    parent: int | None
    children: tuple[int, ...]


@dataclass(frozen=True)
class NcclCluster:
    """`inside`: "pcie" stands for devices that reach each other through a PCIe switch, "memory"
    for those that cannot. `adapters` is the number of network adapters of a node."""

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
        self._check_sizes()
        if self.gpu_direct and self.between != "infiniband":
            raise PlanError(
                "gpu_direct lets the network adapter read a device's memory, which sockets cannot; "
                'use between="infiniband" or gpu_direct=False'
            )

    def _check_sizes(self) -> None:
        if self.devices_per_node > MOST_DEVICES_PER_NODE:
            raise PlanError(
                f"devices_per_node {self.devices_per_node} is more than a node holds; use "
                f"{MOST_DEVICES_PER_NODE} or fewer"
            )
        if self.ranks > MOST_RANKS:
            raise PlanError(
                f"nodes {self.nodes} × devices_per_node {self.devices_per_node} = {self.ranks} "
                f"ranks would print a log that nobody reads; use {MOST_RANKS} or fewer"
            )
        if self.adapters > self.devices_per_node:
            raise PlanError(
                f"adapters {self.adapters} is more than devices_per_node {self.devices_per_node}; "
                f"use {self.devices_per_node} or fewer"
            )

    @property
    def ranks(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def channels(self) -> int:
        """Between nodes NCCL has two for each adapter, so that both trees get one."""
        return CHANNELS_IN_ONE_NODE[self.inside] if self.nodes == 1 else 2 * self.adapters

    def node_of(self, rank: int) -> int:
        return rank // self.devices_per_node

    def device_of(self, rank: int) -> int:
        return rank % self.devices_per_node

    def adapter_of(self, channel: int) -> int:
        return channel % self.adapters

    def is_inside(self, edge: Edge) -> bool:
        return self.node_of(edge.source) == self.node_of(edge.destination)

    def chain(self, channel: int, node: int) -> list[int]:
        """The ranks of a node in the order of a channel: it begins beside its adapter."""
        count = self.devices_per_node
        first = self.adapter_of(channel) * (count // self.adapters)
        return [node * count + (first + place) % count for place in range(count)]

    def ring(self, channel: int) -> list[int]:
        """As NCCL prints it: turned so that rank 0 comes first."""
        order = [rank for node in range(self.nodes) for rank in self.chain(channel, node)]
        start = order.index(0)
        return order[start:] + order[:start]

    def ring_edges(self, channel: int) -> list[Edge]:
        order = self.ring(channel)
        if len(order) == 1:
            return []
        return [
            Edge(channel, rank, after)
            for rank, after in zip(order, order[1:] + order[:1], strict=True)
        ]

    def tree(self, channel: int, mirrored: bool, balanced: bool) -> list[TreeNode]:
        """One entry for each rank, by rank.

        `mirrored`: how the second tree of an even number of nodes is made (before 2.8 it was
        shifted). `balanced`: the second device of a node takes one of its two child nodes.
        """
        parents: dict[int, int] = {}
        for node in range(self.nodes):
            mine = self.chain(channel, node)
            parents |= dict(zip(mine[1:], mine, strict=False))
            for place, child in enumerate(self._node_children(channel, mirrored)[node]):
                takes = mine[1] if balanced and place == 0 and len(mine) > 1 else mine[0]
                if child is not None:
                    parents[self.chain(channel, child)[0]] = takes
        children: dict[int, list[int]] = {rank: [] for rank in range(self.ranks)}
        near = sorted(parents, key=lambda rank: self.node_of(rank) != self.node_of(parents[rank]))
        for rank in near:  # NCCL names the neighbour in the node first
            children[parents[rank]].append(rank)
        return [
            TreeNode(rank, parents.get(rank), tuple(children[rank])) for rank in range(self.ranks)
        ]

    def tree_edges(self, nodes: list[TreeNode], channel: int) -> list[Edge]:
        """Both directions; those that the ring has already are not connected again."""
        known = set(self.ring_edges(channel))
        both = [
            edge
            for node in nodes
            if node.parent is not None
            for edge in (
                Edge(channel, node.parent, node.rank),
                Edge(channel, node.rank, node.parent),
            )
        ]
        return [edge for edge in both if edge not in known]

    def _node_children(self, channel: int, mirrored: bool) -> list[tuple[int | None, int | None]]:
        first = 2 * channel < self.channels
        return self._first_tree if first else _turned(self._first_tree, mirrored)

    @cached_property
    def _first_tree(self) -> list[tuple[int | None, int | None]]:
        return binary_tree(self.nodes)


def binary_tree(count: int) -> list[tuple[int | None, int | None]]:
    """The two children of each: 0 is the root, odd numbers are leaves, and the lowest set bit of
    a number says how high it stands."""
    children: list[tuple[int | None, int | None]] = []
    for number in range(count):
        reach = number & -number if number else 1 << max(count - 1, 0).bit_length()
        lower = number - reach // 2 if number and reach > 1 else None
        upper = None
        while reach > 1 and upper is None:
            reach //= 2
            upper = number + reach if number + reach < count else None
        children.append((lower, upper))
    return children


def _turned(
    tree: list[tuple[int | None, int | None]], mirrored: bool
) -> list[tuple[int | None, int | None]]:
    """The same tree over other nodes, so that who is a leaf in one works in the other."""
    count = len(tree)

    def other(number: int) -> int:
        return count - 1 - number if mirrored and count % 2 == 0 else (number + 1) % count

    turned: list[tuple[int | None, int | None]] = [(None, None)] * count
    for number, (lower, upper) in enumerate(tree):
        turned[other(number)] = (
            None if lower is None else other(lower),
            None if upper is None else other(upper),
        )
    return turned
