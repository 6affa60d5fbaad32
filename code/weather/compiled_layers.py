"""Layers that torch.compile makes kernels for, once for all of them, however many there are."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

KNOWS_ALL = 12
"""The g++ from which on each instruction set that PyTorch may write for is known."""


def compile_each(layers: Iterable[nn.Module]) -> None:
    if compiler_version() >= KNOWS_ALL:
        from torch._inductor import config

        config.cpp.vec_isa_ok = True  # those of the processor; to try each takes longer than layers
    for layer in layers:
        layer.compile()


def compiler_version() -> int:
    """That of g++; 0 where another compiler was chosen, or none is there."""
    program = None if "CXX" in os.environ else shutil.which("g++")
    if program is None:
        return 0
    asked = subprocess.run([program, "-dumpversion"], capture_output=True, text=True, check=False)
    version = asked.stdout.partition(".")[0].strip()
    return int(version) if version.isdecimal() else 0


def as_written(args: argparse.Namespace) -> AbstractContextManager[object]:
    """Layers as Python has them: for some forecasts it would not pay to compile them again."""
    return torch.compiler.set_stance("force_eager") if args.torch_compile else nullcontext()
