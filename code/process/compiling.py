"""Compilation of modules with torch.compile."""

from __future__ import annotations

import os

from torch import nn


def compile_module(module: nn.Module, mode: str | None = None) -> None:
    """Compile a module on its first call.

    Before its first kernel, torch compiles a test program for each instruction set that the
    processor says it has. For a small model this takes longer than all its kernels."""
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")  # skips these test programs
    module.compile(mode=mode)
