"""The network of a job: one bridge, one cable per node, each as fast as the job's link.

Every cable is shaped at both ends, so a node sends and receives at the link's rate, and three
nodes that send to a fourth share its cable, as at the ports of a real switch.
"""

from __future__ import annotations

import os
from typing import Any

from course_lib.box.node import libc

MTU_BYTES = 9000  # jumbo frames, as clusters use; headers then cost 1 % and not 5 %
HIGHEST_SHAPED_GBIT = 30.0  # tbf's rate field ends at 34 Gbit/s; no machine with veth gets there
BURST_S = 0.002  # a busy machine may be this late to send; without the burst the rate would drop
SMALLEST_BURST_BYTES = 128 * 1024  # tbf would cut the kernel's 64 KiB segments in pieces
QUEUE_S = 0.02
SMALLEST_QUEUE_BYTES = 1024 * 1024  # many UDP datagrams of 64 KiB, which arrive whole or not at all


class Cable:
    """The network namespace of one node, with a netlink socket that lives in it."""

    def __init__(self, namespace: int, netlink: Any) -> None:
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
    from pyroute2 import IPRoute  # 0.2 s
    from pyroute2.netlink.exceptions import NetlinkError

    switch_namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    switch = IPRoute()
    try:
        switch.link("add", ifname="switch", kind="bridge")
        bridge = switch.link_lookup(ifname="switch")[0]
        switch.link("set", index=bridge, mtu=MTU_BYTES, state="up")
        cables = []
        limits = shape(link_gbit)
        for number, address in enumerate(addresses, 1):
            cable = _plug(switch_namespace, IPRoute)
            cables.append(cable)
            _connect(switch, bridge, number, cable, limits)
            _address(cable, address, prefix)
        return [cable.namespace for cable in cables]
    except NetlinkError as error:  # no OSError, though it carries the same numbers
        raise OSError(error.code, f"network: {os.strerror(error.code)}") from error
    finally:
        switch.close()
        os.close(switch_namespace)


def _plug(switch_namespace: int, open_netlink: Any) -> Cable:
    """A new network namespace; the caller is back in the switch's afterwards."""
    libc.unshare(libc.NEWNET)
    try:
        _disable_ipv6()
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return Cable(namespace, open_netlink())
    finally:
        libc.setns(switch_namespace, libc.NEWNET)


def _disable_ipv6() -> None:
    """On cables only: a link-local address that changes per job would confuse who lists them."""
    path = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
    if os.path.exists(path):
        with open(path, "w") as file:
            file.write("1")


def _connect(
    switch: Any,
    bridge: int,
    number: int,
    cable: Cable,
    limits: dict[str, int] | None,
) -> None:
    port_name = f"port{number}"
    peer = {"ifname": "eth0", "net_ns_fd": cable.namespace}
    switch.link("add", ifname=port_name, kind="veth", peer=peer)
    port = switch.link_lookup(ifname=port_name)[0]
    switch.link("set", index=port, mtu=MTU_BYTES, master=bridge, state="up")
    node = cable.netlink
    card = node.link_lookup(ifname="eth0")[0]
    node.link("set", index=1, state="up")
    node.link("set", index=card, mtu=MTU_BYTES, state="up")
    if limits:
        switch.tc("add", "tbf", port, **limits)
        node.tc("add", "tbf", card, **limits)


def _address(cable: Cable, address: str, prefix: int) -> None:
    card = cable.netlink.link_lookup(ifname="eth0")[0]
    cable.netlink.addr("add", index=card, address=address, prefixlen=prefix)
    cable.netlink.close()
