"""How much a rank sends in a phase, whatever it sends it with.

Every collective is counted as the ring or tree that libraries make of it, as a mean over the ranks;
messages where they are sent. So a sum by other means than an all-reduce is judged by what travels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

from trials.calls import Calls

NUMBER_BYTES = 8
"""The trials' numbers are float64."""
FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather_into_tensor": lambda n: (n - 1) / n,  # noted is the first tensor, what comes out
    "all_gather_single": lambda n: (n - 1) / n,
    "reduce_scatter_tensor": lambda n: n - 1,
    "reduce_scatter_single": lambda n: n - 1,
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "send": lambda n: 1,
    "isend": lambda n: 1,
    "recv": lambda n: 0,
    "irecv": lambda n: 0,
    "barrier": lambda n: 0,
}


def from_one(n: int) -> float:
    """Broadcast, reduce, scatter and gather: all ranks but one send, or get, the tensor."""
    return (n - 1) / n


def sent(calls: Calls, numbers: int) -> float:
    """By this rank since the case began, in units of so many numbers."""
    size = dist.get_world_size()
    sent_bytes = sum(
        FACTORS.get(made["call"], from_one)(size) * made.get("bytes", 0) for made in calls.made
    )
    return sent_bytes / (numbers * NUMBER_BYTES)
