"""Names for what the program does at a moment ("forward 3" is micro-batch 3), by which it is found
again in a profile."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

NOTHING: AbstractContextManager[None] = nullcontext()


def named(name: str) -> AbstractContextManager[object]:
    """A range of this name in the profile; free of cost while nothing is recorded."""
    return torch.profiler.record_function(name) if is_recording() else NOTHING


def is_recording() -> bool:
    return not torch.compiler.is_compiling() and torch.autograd._profiler_enabled()


def in_backward() -> bool:
    """Called from within backward: what runs forward there is recomputation."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
