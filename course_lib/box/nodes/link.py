"""The network of a job: one bridge, one cable per node, each as fast as the job's link.

Every cable is shaped at both ends, so a node sends and receives at the link's rate, and three
nodes that send to a fourth share its cable, as at the ports of a real switch.
"""

from __future__ import annotations

import os

from course_lib.box.nodes.netlink import Netlink
from course_lib.box.processes import libc

MTU_BYTES = 9000  # jumbo frames, as clusters use; headers then cost 1 % and not 5 %
HIGHEST_SHAPED_GBIT = 30.0  # tbf's rate field ends at 34 Gbit/s; no machine with veth gets there
BURST_S = 0.002  # a busy machine may be this late to send; without the burst the rate would drop
SMALLEST_BURST_BYTES = 128 * 1024  # tbf would cut the kernel's 64 KiB segments in pieces
QUEUE_S = 0.02
SMALLEST_QUEUE_BYTES = 1024 * 1024  # many UDP datagrams of 64 KiB, which arrive whole or not at all


class Cable:
    """The network namespace of one node, with a netlink socket that lives in it."""

    def __init__(self, namespace: int, netlink: Netlink) -> None:
        self.namespace = namespace
        self.netlink = netlink


def shape(link_gbit: float) -> dict[str, int] | None:
    """Arguments of tbf (bytes, bytes per second), or None where the link is not shaped."""
    if link_gbit > HIGHEST_SHAPED_GBIT:
        return None
    rate = int(link_gbit * 1e9 / 8)
    burst = max(SMALLEST_BURST_BYTES, int(rate * BURST_S))
    queue = max(SMALLEST_QUEUE_BYTES, int(rate * QUEUE_S))
    return {"rate": rate, "burst": burst, "limit": burst + queue}


def build(addresses: list[str], prefix: int, link_gbit: float) -> list[int]:
    """Makes the network in the caller's namespaces; returns one network namespace per address.

    The caller is in a network namespace of its own, which becomes the switch.
    """
    limits = shape(link_gbit)
    networks = []
    switch_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Netlink() as switch:
            switch.add_bridge("switch")
            bridge = switch.index_of("switch")
            switch.bring_up(bridge, MTU_BYTES)
            for number, address in enumerate(addresses, 1):
                cable = _plug(switch_namespace)
                with cable.netlink as node:
                    card = _connect(switch, bridge, number, cable, limits)
                    node.add_address(card, address, prefix)
                networks.append(cable.namespace)
    finally:
        os.close(switch_namespace)
    return networks


def _plug(switch_namespace: int) -> Cable:
    """A new network namespace; the caller is back in the switch's afterwards."""
    libc.unshare(libc.NEWNET)
    try:
        _disable_ipv6()
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return Cable(namespace, Netlink())
    finally:
        libc.setns(switch_namespace, libc.NEWNET)


def _disable_ipv6() -> None:
    """On cables only: a link-local address that changes per job would confuse who lists them."""
    path = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
    if os.path.exists(path):
        with open(path, "w") as file:
            file.write("1")


def _connect(
    switch: Netlink,
    bridge: int,
    number: int,
    cable: Cable,
    limits: dict[str, int] | None,
) -> int:
    """The index of the node's card, which is up afterwards, as is its loopback."""
    port_name = f"port{number}"
    switch.add_veth(port_name, "eth0", cable.namespace)
    port = switch.index_of(port_name)
    switch.bring_up(port, MTU_BYTES, bridge)
    node = cable.netlink
    card = node.index_of("eth0")
    node.bring_up(node.index_of("lo"))
    node.bring_up(card, MTU_BYTES)
    if limits:
        switch.shape(port, **limits)
        node.shape(card, **limits)
    return card
