"""What a node has, and what it has not: no internet, other modules than its neighbour."""

from __future__ import annotations

import argparse
import sys
import urllib.request
from importlib import import_module
from types import ModuleType

from faults.fault import Fault


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
