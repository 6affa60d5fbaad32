"""Profiles: PyTorch profiler traces of a few steps, for TensorBoard's profiler tab."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

NOTHING: AbstractContextManager[None] = nullcontext()


def named(name: str) -> AbstractContextManager[object]:
    """A range of this name in the profile; free of cost while nothing is recorded."""
    return torch.profiler.record_function(name) if torch.autograd._profiler_enabled() else NOTHING
