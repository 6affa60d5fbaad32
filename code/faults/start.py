"""Faults before the first step: ports, names and walls; no internet, other modules on one node."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import urllib.request
from importlib import import_module
from types import ModuleType

from faults.fault import Fault

TIMEOUT_S = 8.0
TAKEN: list[socket.socket] = []


class ShortTimeout(Fault):
    """Nobody waits ten minutes for a lesson."""

    def at_start(self, args: argparse.Namespace) -> None:
        args.distributed_timeout_minutes = TIMEOUT_S / 60
        self.change_environment()

    def change_environment(self) -> None: ...


class WrongPort(ShortTimeout):
    """One rank was given the port of yesterday."""

    def change_environment(self) -> None:
        if self.mine:
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)


class WrongMaster(ShortTimeout):
    """The ranks of one node take their own node for the meeting point, as `$(hostname)` in a script
    makes them do."""

    def change_environment(self) -> None:
        if not self.on_my_node:
            return
        if socket.gethostbyname(os.environ["MASTER_ADDR"]).startswith("127."):
            # Nodes that are one machine have one loopback: there nobody waits at another port.
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        os.environ["MASTER_ADDR"] = "127.0.0.1"


class BadName(ShortTimeout):
    """A name that the nodes do not know. (`.invalid` is a name that nobody may ever have.)"""

    def change_environment(self) -> None:
        if self.mine:
            os.environ["MASTER_ADDR"] += ".invalid"


class PortTaken(ShortTimeout):
    """Another program has the port of the job."""

    def change_environment(self) -> None:
        if is_first_rank():
            taken = socket.create_server(("", int(os.environ["MASTER_PORT"])))
            TAKEN.append(taken)


def is_first_rank() -> bool:
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID")) == "0"


class NoInternet(Fault):
    """The tokenizer is to be fetched when the job runs. (`.invalid` is a name that nobody may ever
    have: so it fails on a machine with a way out as well.)"""

    def at_start(self, args: argparse.Namespace) -> None:
        urllib.request.urlopen("https://models.invalid/gpt2/tokenizer.json", timeout=5)


class MissingModule(Fault):
    """One node has another environment, in which something is not installed."""

    MODULE = "fused_norms"

    def at_start(self, args: argparse.Namespace) -> None:
        if self.on_my_node:
            import_module(self.MODULE)


class OldModule(Fault):
    """One node loads an older version of a module, which lacks a function."""

    def at_start(self, args: argparse.Namespace) -> None:
        if self.on_my_node:
            sys.modules["fused_norms"] = ModuleType("fused_norms")
            from fused_norms import rms_norm_backward  # type: ignore[import-not-found] # noqa: F401
