"""What comes to a process group without the functions of `torch.distributed`: from C++, by
functional collectives, or by methods of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from trials.calls import MESSAGES, Calls

NAMES = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "allgather": "all_gather",
    "allgather_base": "all_gather_into_tensor", "reduce_scatter_base": "reduce_scatter_tensor",
    "alltoall": "all_to_all", "alltoall_base": "all_to_all_single", "recv_any_source": "recv",
    "all_reduce_coalesced": "all_reduce",
}  # fmt: skip
"""What torch.distributed calls it, where an operator is called otherwise."""
NOT_YET_THERE = "AsyncCollectiveTensor"
"""What a functional collective returns: the first use of its numbers waits for them."""


class Below(TorchDispatchMode):
    """While it is entered, in this thread."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = calls

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Skipping it would load the compiler first, for seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if not self.calls.inside.on:
            name = func.overloadpacket.__name__.strip("_")
            if is_wait(func, name, types):
                self.calls.waits.note(blocks=True, number=None)
            elif "c10d" in func.namespace and name != "wrap_tensor_autograd":
                self._note(name, args)
        return func(*args, **(kwargs or {}))

    def _note(self, name: str, args: tuple[Any, ...]) -> None:
        told = {"call": NAMES.get(name, name), **self.calls.told_of(args)}
        if name in MESSAGES and len(args) > 2:
            told["peer"] = args[2]
        self.calls.note(told)


def is_wait(func: Any, name: str, types: Sequence[type]) -> bool:
    if not any(one.__name__ == NOT_YET_THERE for one in types):
        return name == "wait_tensor"
    alias = func._schema.arguments[0].alias_info if func._schema.arguments else None
    is_view = alias is not None and not alias.is_write
    return not is_view and (name == "wait_tensor" or "c10d" not in func.namespace)
