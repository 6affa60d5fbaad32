"""Named ranges of the program, such as "forward 3" for micro-batch 3, which appear in a profile."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

NOTHING: AbstractContextManager[None] = nullcontext()


def named(name: str) -> AbstractContextManager[object]:
    """Return a profiler range of this name, or a no-op if nothing is recorded."""
    return torch.profiler.record_function(name) if is_recording() else NOTHING


def is_recording() -> bool:
    return not torch.compiler.is_compiling() and torch.autograd._profiler_enabled()


def in_backward() -> bool:
    """Tell whether backward is running: a forward inside it is recomputation."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
