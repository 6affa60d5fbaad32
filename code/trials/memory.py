"""Counts of held numbers, in this process's float64 tensors, and of waiting micro-batches."""

from __future__ import annotations

import gc
import time

import torch
from torch import nn

# A gloo thread may hold sent tensors slightly longer than the program.
PATIENCE_S, MOMENT_S = 0.5, 0.01


class Waiting:
    """Micro-batches between their forward and their backward pass, by the address of the input."""

    def __init__(self) -> None:
        self.now: set[int] = set()
        self.most, self.share_a_buffer = 0, False

    def note(self, x: torch.Tensor, y: torch.Tensor) -> None:
        place = x.data_ptr()
        if y.requires_grad:
            self.share_a_buffer |= place in self.now or x.grad is not None
            self.now.add(place)
            self.most = max(self.most, len(self.now))
            y.register_hook(lambda _: self.now.discard(place))


def ignore_what_is_there() -> None:
    """Freeze existing objects, as a search through all of torch's objects takes long."""
    gc.freeze()


def held_numbers(most: float) -> int:
    """Return the count; if it exceeds `most`, retry for a moment."""
    until_s = time.monotonic() + PATIENCE_S
    while (numbers := _held_numbers()) > most and time.monotonic() < until_s:
        time.sleep(MOMENT_S)
    return numbers


def settled_numbers() -> int:
    """Return the count once it no longer falls."""
    before = _held_numbers() + 1
    while (numbers := _held_numbers()) < before:
        before = numbers
        time.sleep(MOMENT_S)
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
