"""Training step as a CUDA graph: its kernels are recorded once, and then launched together.

A graph repeats kernels with their recorded addresses and numbers. So batches are copied into fixed
tensors, and the learning rate is a tensor. Gradients stay where the recorded backward allocated
them. Nothing in the step may read a result."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from process.errors import ArgumentsError

Inputs = tuple[Tensor, ...]
# Steps without a graph, so that libraries choose kernels and Adam creates its state before.
WARM_UP_STEPS = 3


def check_possible(args: argparse.Namespace, device: torch.device, ranks: int) -> None:
    if device.type != "cuda" or ranks > 1 or args.amp_mode == "fp16" or args.torch_compile:
        # With fp16, each step would check for overflows, and so read a result.
        raise ArgumentsError(
            "--cuda-graphs true needs one rank with a GPU, and neither --amp-mode fp16 nor "
            "--torch-compile true; change these, or leave it out"
        )


class RecordedStep:
    """Recorded step. `compute` runs forward, backward and optimizer; `clear` drops gradients, so
    that they are allocated again in the graph's memory."""

    graph: torch.cuda.CUDAGraph
    loss: Tensor

    def __init__(self, compute: Callable[..., Tensor], clear: Callable[[], None]) -> None:
        self.compute, self.clear = compute, clear
        self.side = torch.cuda.Stream()  # the default stream cannot be recorded
        self.done = 0
        self.inputs: Inputs = ()

    def __call__(self, inputs: Inputs, after_forward: Callable[[], None] | None = None) -> Tensor:
        self.done += 1
        if self.done <= WARM_UP_STEPS:
            return self._kernel_by_kernel(inputs, after_forward)
        if not self.inputs:
            self._record(inputs)
        for kept, new in zip(self.inputs, inputs, strict=True):
            kept.copy_(new)
        self.graph.replay()
        return self.loss.clone()  # the next step overwrites it

    def _kernel_by_kernel(self, inputs: Inputs, after_forward: Callable[[], None] | None) -> Tensor:
        """Run without a graph; streams wait for each other, first for the batch and then for the
        weights."""
        self.clear()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            loss = self.compute(inputs, after_forward)
        torch.cuda.current_stream().wait_stream(self.side)
        return loss

    def _record(self, inputs: Inputs) -> None:
        """Record the graph without computing; each replay writes its result to `loss`."""
        self.inputs = tuple(tensor.clone() for tensor in inputs)
        self.clear()
        self.graph = torch.cuda.CUDAGraph()
        # Other threads, such as the one that pins batches, may allocate meanwhile.
        with torch.cuda.graph(self.graph, stream=self.side, capture_error_mode="thread_local"):
            self.loss = self.compute(self.inputs)
