"""Faults before the first step: ports, names, firewalls, no internet, other modules on one node."""

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
    """Fault with a short time-out, because a lesson cannot wait ten minutes."""

    def at_start(self, args: argparse.Namespace) -> None:
        args.distributed_timeout_minutes = TIMEOUT_S / 60
        self.change_environment()

    def change_environment(self) -> None: ...


class WrongPort(ShortTimeout):
    """Fault: one rank got an old port number."""

    def change_environment(self) -> None:
        if self.mine:
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)


class WrongMaster(ShortTimeout):
    """Fault: the ranks of one node use their own node as master, as `$(hostname)` in a script makes
    them do."""

    def change_environment(self) -> None:
        if not self.on_my_node:
            return
        if socket.gethostbyname(os.environ["MASTER_ADDR"]).startswith("127."):
            # Nodes on the same machine share one loopback address, so the port must differ too.
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        os.environ["MASTER_ADDR"] = "127.0.0.1"


class BadName(ShortTimeout):
    """Fault: the nodes cannot resolve the master's name (`.invalid` never resolves)."""

    def change_environment(self) -> None:
        if self.mine:
            os.environ["MASTER_ADDR"] += ".invalid"


class PortTaken(ShortTimeout):
    """Fault: another program uses the job's port."""

    def change_environment(self) -> None:
        if is_first_rank():
            taken = socket.create_server(("", int(os.environ["MASTER_PORT"])))
            TAKEN.append(taken)


def is_first_rank() -> bool:
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID")) == "0"


class NoInternet(Fault):
    """Fault: the job downloads the tokenizer at its start. (`.invalid` never resolves, so this
    fails on machines with internet, too.)"""

    def at_start(self, args: argparse.Namespace) -> None:
        urllib.request.urlopen("https://models.invalid/gpt2/tokenizer.json", timeout=5)


class MissingModule(Fault):
    """Fault: one node has a different environment, which lacks a module."""

    MODULE = "fused_norms"

    def at_start(self, args: argparse.Namespace) -> None:
        if self.on_my_node:
            import_module(self.MODULE)


class OldModule(Fault):
    """Fault: one node loads an older version of a module, which lacks a function."""

    def at_start(self, args: argparse.Namespace) -> None:
        if self.on_my_node:
            sys.modules["fused_norms"] = ModuleType("fused_norms")
            from fused_norms import rms_norm_backward  # type: ignore[import-not-found] # noqa: F401
