"""Network devices by rtnetlink, the kernel's own interface (Linux): the few requests of a job.

A library for it would take more CPU time to import than all else that a job starts. The numbers are
those of linux/netlink.h, rtnetlink.h, if_link.h, if_addr.h, pkt_sched.h and veth.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

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
_REQUEST, _ACKNOWLEDGE, _CREATE = 0x1, 0x4, 0x400 | 0x200  # what exists already is an error
_ANSWER_BYTES = 64 * 1024

_IFLA_NAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_INFO, _IFLA_NAMESPACE = 3, 4, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_TCA_KIND, _TCA_OPTIONS, _TBF_PARAMETERS, _TBF_TABLE = 1, 2, 1, 2
_UP = 1
_ROOT = 0xFFFFFFFF
_ETHERNET = 1
_CELL_LOG2 = 3  # the table's 256 cells of 8 bytes reach over a packet of 2 KiB


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
        """Two cards with a cable between them; the other one lies in the namespace given."""
        end = _text(_IFLA_NAME, peer_name) + _number(_IFLA_NAMESPACE, peer_namespace)
        peer = _attribute(_VETH_PEER, _interface() + end)
        kind = _attribute(_IFLA_INFO, _text(_INFO_KIND, "veth") + _attribute(_INFO_DATA, peer))
        self._request(_NEW_LINK, _interface() + _text(_IFLA_NAME, name) + kind, _CREATE)

    def index_of(self, name: str) -> int:
        """In the namespace of the socket, where the caller itself need not be."""
        answers = self._request(_GET_LINK, _interface() + _text(_IFLA_NAME, name))
        return int(_INTERFACE.unpack_from(answers[0])[2])

    def bring_up(self, index: int, mtu_bytes: int | None = None, bridge: int | None = None) -> None:
        """Also sets the largest packet and plugs the interface into a bridge, where given."""
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
        """What the interface sends passes a token bucket (tbf); bytes per second, and bytes."""
        self._request(
            _NEW_QUEUE,
            _QUEUE.pack(socket.AF_UNSPEC, index, 0, _ROOT, 0)
            + _text(_TCA_KIND, "tbf")
            + _attribute(_TCA_OPTIONS, _bucket(rate, burst, limit)),
            _CREATE,
        )

    def _request(self, request: int, content: bytes, flags: int = 0) -> list[bytes]:
        """What the kernel answers before it acknowledges."""
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
    """Kind, sequence number and content of each."""
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
    """Without an index: one that is told by its name, or is yet to be made."""
    return bytes(_INTERFACE.size)


def _bucket(rate: int, burst: int, limit: int) -> bytes:
    """The burst goes as the time that it takes; old kernels look up such times in the table."""
    ticks_per_s = _ticks_per_s()
    spec = _RATE.pack(_CELL_LOG2, _ETHERNET, 0, -1, 0, rate)
    no_peak = bytes(_RATE.size)
    sizes = _BUCKET.pack(limit, burst * ticks_per_s // rate, 0)
    cells = (cell << _CELL_LOG2 for cell in range(1, 257))
    table = b"".join(_NUMBER.pack(size * ticks_per_s // rate) for size in cells)
    parameters = _attribute(_TBF_PARAMETERS, spec + no_peak + sizes)
    return parameters + _attribute(_TBF_TABLE, table)


def _ticks_per_s() -> int:
    """Of the clock in which queues count how long sending takes."""
    try:
        with open("/proc/net/psched") as file:
            ns_per_us, ns_per_tick, us_per_s = (int(word, 16) for word in file.read().split()[:3])
    except FileNotFoundError:  # a kernel that cannot shape at all
        raise _failure(errno.ENOENT) from None
    return ns_per_us * us_per_s // ns_per_tick


def _failure(number: int) -> OSError:
    return OSError(number, f"network: {os.strerror(number)}")
