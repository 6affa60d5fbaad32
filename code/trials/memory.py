"""Count of the numbers in this process's float64 tensors, the type of the trials."""

from __future__ import annotations

import gc
import time

import torch
from torch import nn

# A gloo thread may hold sent tensors slightly longer than the program.
PATIENCE_S = 0.5


def ignore_what_is_there() -> None:
    """Freeze existing objects, as a search through all of torch's objects takes long."""
    gc.freeze()


def held_numbers(most: float) -> int:
    """Return the count; if it exceeds `most`, retry for a moment."""
    until_s = time.monotonic() + PATIENCE_S
    while (numbers := _held_numbers()) > most and time.monotonic() < until_s:
        time.sleep(0.01)
    return numbers


def _held_numbers() -> int:
    gc.collect()
    storages = {
        one.untyped_storage()._cdata: one.untyped_storage().nbytes() // one.element_size()
        for one in gc.get_objects()
        if type(one) in (torch.Tensor, nn.Parameter)
        if one.dtype == torch.float64 and not one.is_meta
    }
    return sum(storages.values())
