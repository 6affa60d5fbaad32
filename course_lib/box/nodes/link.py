"""The network of a job: one bridge, and one cable per node with the rate of the job's link.

Every cable is shaped at both ends, so a node sends and receives at the link's rate. Three nodes
that send to a fourth share its cable, as at the ports of a real switch. The code uses rtnetlink,
the kernel's own interface (Linux). A library for it would take more CPU time to import than
everything else that a job starts. The constants come from linux/netlink.h, rtnetlink.h, if_link.h,
if_addr.h, pkt_sched.h and veth.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

from course_lib.box.processes import libc

_HEADER = struct.Struct("=IHHII")  # length, kind, flags, sequence number, sender
_ATTRIBUTE = struct.Struct("=HH")  # length with this head, kind
_INTERFACE = struct.Struct("=BxHiII")  # family, type, index, flags, which flags to change
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_QUEUE = struct.Struct("=BxxxiIII")  # family, index, handle, parent, info
_RATE = struct.Struct("=BBHhHI")  # log2 of the cell, link layer, overhead, align, mpu, bytes/s
_BUCKET = struct.Struct("=III")  # bytes at most in bucket and queue, ticks, bytes at peak rate
_NUMBER = struct.Struct("=I")
_ERROR = struct.Struct("=i")

_NLMSG_ERROR = 2  # also the acknowledgement, with error 0
_NEW_LINK, _GET_LINK, _NEW_ADDRESS, _NEW_QUEUE = 16, 18, 20, 36  # RTM_NEWLINK … RTM_NEWQDISC
_REQUEST, _ACKNOWLEDGE, _CREATE = 0x1, 0x4, 0x400 | 0x200  # an existing object is an error
_ANSWER_BYTES = 64 * 1024

_IFLA_NAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_INFO, _IFLA_NAMESPACE = 3, 4, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TCA_KIND, _TCA_OPTIONS, _TBF_PARAMETERS, _TBF_TABLE = 1, 2, 1, 2
_UP = 1
_ROOT = 0xFFFFFFFF
_ETHERNET = 1
_CELL_LOG2 = 3  # the table has 256 cells of 8 bytes, which cover a packet of 2 KiB


class Netlink:
    """A socket that stays in the network namespace in which it was opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._sequence = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        kind = _attribute(_IFLA_INFO, _text(_INFO_KIND, "bridge"))
        self._request(_NEW_LINK, _interface() + _text(_IFLA_NAME, name) + kind, _CREATE)

    def add_veth(self, name: str, peer_name: str, peer_namespace: int) -> None:
        """Create two interfaces with a cable between them. The peer lies in the given namespace."""
        end = _text(_IFLA_NAME, peer_name) + _number(_IFLA_NAMESPACE, peer_namespace)
        peer = _attribute(_VETH_PEER, _interface() + end)
        kind = _attribute(_IFLA_INFO, _text(_INFO_KIND, "veth") + _attribute(_INFO_DATA, peer))
        self._request(_NEW_LINK, _interface() + _text(_IFLA_NAME, name) + kind, _CREATE)

    def index_of(self, name: str) -> int:
        """Return the index of an interface in the socket's namespace."""
        answers = self._request(_GET_LINK, _interface() + _text(_IFLA_NAME, name))
        return int(_INTERFACE.unpack_from(answers[0])[2])

    def bring_up(self, index: int, mtu_bytes: int | None = None, bridge: int | None = None) -> None:
        """Bring an interface up. Optionally set its largest packet and attach it to a bridge."""
        wanted = _INTERFACE.pack(socket.AF_UNSPEC, 0, index, _UP, _UP)
        if mtu_bytes is not None:
            wanted += _number(_IFLA_MTU, mtu_bytes)
        if bridge is not None:
            wanted += _number(_IFLA_MASTER, bridge)
        self._request(_NEW_LINK, wanted)

    def add_address(self, index: int, address: str, prefix_bits: int) -> None:
        packed = socket.inet_aton(address)
        self._request(
            _NEW_ADDRESS,
            _ADDRESS.pack(socket.AF_INET, prefix_bits, 0, 0, index)
            + _attribute(_IFA_LOCAL, packed)
            + _attribute(_IFA_ADDRESS, packed),
            _CREATE,
        )

    def shape(self, index: int, rate: int, burst: int, limit: int) -> None:
        """Limit an interface's sending rate (bytes/s) by a token bucket (tbf; sizes in bytes)."""
        self._request(
            _NEW_QUEUE,
            _QUEUE.pack(socket.AF_UNSPEC, index, 0, _ROOT, 0)
            + _text(_TCA_KIND, "tbf")
            + _attribute(_TCA_OPTIONS, _bucket(rate, burst, limit)),
            _CREATE,
        )

    def _request(self, request: int, content: bytes, flags: int = 0) -> list[bytes]:
        """Send a request and return the kernel's answers before its acknowledgement."""
        self._sequence += 1
        length, flags = _HEADER.size + len(content), flags | _REQUEST | _ACKNOWLEDGE
        self._socket.send(_HEADER.pack(length, request, flags, self._sequence, 0) + content)
        answers: list[bytes] = []
        while True:
            for kind, sequence, answer in _messages(self._socket.recv(_ANSWER_BYTES)):
                if sequence != self._sequence:
                    continue
                if kind != _NLMSG_ERROR:
                    answers.append(answer)
                elif number := -_ERROR.unpack_from(answer)[0]:
                    raise _failure(number)
                else:
                    return answers


def _messages(received: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, sequence number and content of each message."""
    while received:
        length, kind, _, sequence, _ = _HEADER.unpack_from(received)
        yield kind, sequence, received[_HEADER.size : length]
        received = received[(length + 3) & ~3 :]


def _attribute(kind: int, content: bytes) -> bytes:
    head = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), kind)
    return head + content + bytes(-len(content) % 4)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return _attribute(kind, _NUMBER.pack(number))


def _interface() -> bytes:
    """Return a header without an index, for an interface given by name or not created yet."""
    return bytes(_INTERFACE.size)


def _bucket(rate: int, burst: int, limit: int) -> bytes:
    """Return the parameters of tbf. The burst is sent as a duration; old kernels need the table."""
    ticks_per_s = _ticks_per_s()
    spec = _RATE.pack(_CELL_LOG2, _ETHERNET, 0, -1, 0, rate)
    no_peak = bytes(_RATE.size)
    sizes = _BUCKET.pack(limit, burst * ticks_per_s // rate, 0)
    cells = (cell << _CELL_LOG2 for cell in range(1, 257))
    table = b"".join(_NUMBER.pack(size * ticks_per_s // rate) for size in cells)
    parameters = _attribute(_TBF_PARAMETERS, spec + no_peak + sizes)
    return parameters + _attribute(_TBF_TABLE, table)


def _ticks_per_s() -> int:
    """Return the rate of the clock with which queues measure sending times."""
    try:
        with open("/proc/net/psched") as file:
            ns_per_us, ns_per_tick, us_per_s = (int(word, 16) for word in file.read().split()[:3])
    except FileNotFoundError:  # this kernel cannot shape
        raise _failure(errno.ENOENT) from None
    return ns_per_us * us_per_s // ns_per_tick


def _failure(number: int) -> OSError:
    return OSError(number, f"network: {os.strerror(number)}")


MTU_BYTES = 9000  # jumbo frames, as on clusters: headers cost 1 % instead of 5 %
HIGHEST_SHAPED_GBIT = 30.0  # tbf's rate field ends at 34 Gbit/s, faster than any machine with veth
BURST_S = 0.001  # queued acknowledgements and late timers would otherwise lower the rate
SMALLEST_BURST_BYTES = 128 * 1024  # otherwise tbf would split the kernel's 64 KiB segments
QUEUE_S = 0.02
SMALLEST_QUEUE_BYTES = 1024 * 1024  # many UDP datagrams of 64 KiB, which are not delivered in part


def shape(link_gbit: float) -> dict[str, int] | None:
    """Return arguments of tbf (bytes, bytes per second), or None if the link is not shaped."""
    if link_gbit > HIGHEST_SHAPED_GBIT:
        return None
    rate = int(link_gbit * 1e9 / 8)
    burst = max(SMALLEST_BURST_BYTES, int(rate * BURST_S))
    queue = max(SMALLEST_QUEUE_BYTES, int(rate * QUEUE_S))
    return {"rate": rate, "burst": burst, "limit": burst + queue}


def build(addresses: list[str], prefix: int, link_gbit: float) -> list[int]:
    """Create the network in the caller's namespaces and return one network namespace per address.

    The caller's own network namespace becomes the switch.
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
                namespace, netlink = _plug(switch_namespace)
                networks.append(namespace)
                switch.add_veth(f"port{number}", "eth0", namespace)
                with netlink as node:
                    card = _connect(switch, bridge, f"port{number}", node, limits)
                    node.add_address(card, address, prefix)
    finally:
        os.close(switch_namespace)
    return networks


def _plug(switch_namespace: int) -> tuple[int, Netlink]:
    """Create a node's network namespace with a socket, and return to the switch's namespace."""
    libc.unshare(libc.NEWNET)
    try:
        _disable_ipv6()
        namespace = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        return namespace, Netlink()
    finally:
        libc.setns(switch_namespace, libc.NEWNET)


def _disable_ipv6() -> None:
    """Disable IPv6 on cables. Link-local addresses change per job and would confuse users."""
    path = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
    if os.path.exists(path):
        with open(path, "w") as file:
            file.write("1")


def _connect(
    switch: Netlink, bridge: int, port_name: str, node: Netlink, limits: dict[str, int] | None
) -> int:
    """Connect a node to the switch. Return the index of its interface, which is then up."""
    port = switch.index_of(port_name)
    switch.bring_up(port, MTU_BYTES, bridge)
    card = node.index_of("eth0")
    node.bring_up(node.index_of("lo"))
    node.bring_up(card, MTU_BYTES)
    if limits:
        switch.shape(port, **limits)
        node.shape(card, **limits)
    return card
