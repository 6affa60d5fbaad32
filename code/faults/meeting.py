"""Before the first step: ports, names and walls."""

from __future__ import annotations

import argparse
import os
import socket

from faults.fault import Fault

PATIENCE_S = 8.0
TAKEN: list[socket.socket] = []


class Impatient(Fault):
    """Nobody waits ten minutes for a lesson."""

    def at_start(self, args: argparse.Namespace) -> None:
        args.distributed_timeout_minutes = PATIENCE_S / 60
        self.mislead()

    def mislead(self) -> None: ...


class WrongPort(Impatient):
    """One rank was given the port of yesterday."""

    def mislead(self) -> None:
        if self.mine:
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)


class WrongMaster(Impatient):
    """The ranks of one node take their own node for the meeting point, as `$(hostname)` in a script
    makes them do."""

    def mislead(self) -> None:
        if not self.on_my_node:
            return
        if socket.gethostbyname(os.environ["MASTER_ADDR"]).startswith("127."):
            # Nodes that are one machine have one loopback: there nobody waits at another port.
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        os.environ["MASTER_ADDR"] = "127.0.0.1"


class BadName(Impatient):
    """A name that the nodes do not know. (`.invalid` is a name that nobody may ever have.)"""

    def mislead(self) -> None:
        if self.mine:
            os.environ["MASTER_ADDR"] += ".invalid"


class PortTaken(Impatient):
    """Another program has the port of the job."""

    def mislead(self) -> None:
        if environment_is_of_first():
            taken = socket.create_server(("", int(os.environ["MASTER_PORT"])))
            TAKEN.append(taken)


class Wall(Impatient):
    """What is sent to the meeting point is thrown away, as a firewall does: no answer at all. Here
    it is a door with a full waiting room, at which nobody opens."""

    def mislead(self) -> None:
        if not self.on_my_node:
            return
        door = socket.socket()
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        address = door.getsockname()
        guests = [socket.socket() for _ in range(4)]
        for guest in guests:
            guest.setblocking(False)
            guest.connect_ex(address)
        TAKEN.extend([door, *guests])
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address[0], str(address[1])


def environment_is_of_first() -> bool:
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID")) == "0"
