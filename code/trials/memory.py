"""How many numbers the tensors of this process hold; those of the trials are float64."""

from __future__ import annotations

import gc
import time

import torch
from torch import nn

# A thread of gloo may hold what it sent a little longer than the program does.
PATIENCE_S = 0.5


def ignore_what_is_there() -> None:
    """Looking at all objects that torch has made takes long."""
    gc.freeze()


def held_numbers(most: float) -> int:
    """If there are more than `most`, they are counted again for a moment."""
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
