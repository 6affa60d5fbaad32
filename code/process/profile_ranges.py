"""Names for what the program does at a moment ("forward 3" is micro-batch 3), by which it is found
again in a profile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

NOTHING: AbstractContextManager[None] = nullcontext()


def named(name: str) -> AbstractContextManager[object]:
    """A range of this name in the profile; free of cost while nothing is recorded."""
    if torch.compiler.is_compiling() or not torch.autograd._profiler_enabled():
        return NOTHING
    return torch.profiler.record_function(name)


def operator(name: str) -> AbstractContextManager[object]:
    """Counted by every reader of profiles as one of PyTorch's operators is: as computing."""
    if torch.compiler.is_compiling() or not torch.autograd._profiler_enabled():
        return NOTHING
    return _operator(name)


@contextmanager
def _operator(name: str) -> Iterator[None]:
    handle = torch.autograd._record_function_with_args_enter(name)
    try:
        yield
    finally:
        torch.autograd._record_function_with_args_exit(handle)


def in_backward() -> bool:
    """Called from within backward: what runs forward there is recomputation."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
