"""Choice of a device of this node by its number."""

from __future__ import annotations

import os
import socket

import torch

from process.device import index_of


def device_of(number: int) -> torch.device:
    """Return a GPU, or the processor if device slots are shares of it. In both cases a node has as
    many devices as processes, and a larger number raises the same error."""
    slots = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if not 0 <= number < slots:
        raise RuntimeError(
            f"invalid device ordinal: {socket.gethostname()} has devices 0 to {slots - 1}, and "
            f"number {number} was asked for"
        )
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", index_of(number, torch.cuda.device_count()))
    torch.cuda.set_device(device)
    return device
