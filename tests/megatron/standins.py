"""Make Megatron-LM's modules importable without a GPU. No replacement is ever called.

The tests use only its command line and its data sets. Their imports need modules that compile
kernels for a device.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

KERNELS = ("triton",)
HOPPER = types.SimpleNamespace(major=9, minor=0)


class StandIn(ModuleType):
    """A module's replacement. It has every attribute, and decorates anything."""

    __version__ = "3.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if given and callable(given[0]) else StandIn("made")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in KERNELS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


def install(checkout: str) -> None:
    """Install the stand-ins before the first import of `megatron`. They report a Hopper device."""
    import torch
    import torch._dynamo
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.utils.flop_counter

    def as_it_is(function: Any = None, **options: Any) -> Any:
        return function if function is not None else lambda wrapped: wrapped

    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True  # the checkout is another's
    torch.compile = torch.jit.script = as_it_is
    torch.cuda.get_device_properties = lambda device=None: HOPPER
    torch.cuda.get_device_capability = lambda device=None: (HOPPER.major, HOPPER.minor)
    if sys.version_info < (3, 12):
        import typing

        typing.override = lambda method: method  # type: ignore[attr-defined]
    sys.meta_path.append(Finder())
    sys.path.insert(0, checkout)
