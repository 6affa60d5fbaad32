"""A training step as a CUDA graph: its kernels are recorded once, and started together ever after.

A graph repeats kernels with the addresses and the numbers that they had when it was recorded. So
batches are copied into tensors that stay where they are, the learning rate is a tensor, gradients
live where the recorded backward pass made them, and nothing in the step may look at a result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch
from torch import Tensor

from process.errors import ArgumentsError

Inputs = tuple[Tensor, ...]
WARM_UP_STEPS = 3
"""Kernel by kernel, so that libraries make their plans and Adam its state outside of the graph."""


def check_possible(args: argparse.Namespace, device: torch.device, ranks: int) -> None:
    if device.type != "cuda":
        raise ArgumentsError(
            [f"--cuda-graphs true records what CUDA starts on a GPU, and the device of this rank "
             f"is {device}: leave it out"]
        )  # fmt: skip
    found = []
    if ranks > 1:
        found.append(f"--cuda-graphs true is for one rank, and there are {ranks}: leave it out")
    if args.amp_mode == "fp16":
        found.append(
            "--cuda-graphs true with --amp-mode fp16: the loss scale asks after each step whether "
            "a gradient overflowed, which no graph can; take bf16"
        )
    if args.torch_compile:
        found.append("--cuda-graphs true and --torch-compile true: give one of the two")
    if found:
        raise ArgumentsError(found)


class Recorder(Protocol):
    def beside(self) -> AbstractContextManager[object]: ...

    def record(self, step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]: ...


class CudaRecorder:
    """Records what a function asks of the GPU."""

    def __init__(self) -> None:
        self.side = torch.cuda.Stream()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """On another stream than the usual one, on which nothing can be recorded. Each waits for
        the other: before it for the batch, after it for the weights."""
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            yield
        torch.cuda.current_stream().wait_stream(self.side)

    def record(self, step: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """What repeats the step, and where its result will be. Nothing is computed meanwhile."""
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may allocate: the one that pins batches does.
        with torch.cuda.graph(graph, stream=self.side, capture_error_mode="thread_local"):
            result = step()
        return graph.replay, result


class RecordedStep:
    """`compute` makes gradients and steps; `clear` drops gradients, so that they are made anew
    among the memory of the graph."""

    def __init__(
        self, compute: Callable[..., Tensor], clear: Callable[[], None], recorder: Recorder
    ) -> None:
        self.compute, self.clear, self.recorder = compute, clear, recorder
        self.done = 0
        self.inputs: Inputs = ()

    replay: Callable[[], None]
    loss: Tensor

    def __call__(self, inputs: Inputs, after_forward: Callable[[], None] | None = None) -> Tensor:
        self.done += 1
        if self.done <= WARM_UP_STEPS:
            self.clear()
            with self.recorder.beside():
                return self.compute(inputs, after_forward)
        if not self.inputs:
            self._record(inputs)
        for kept, new in zip(self.inputs, inputs, strict=True):
            kept.copy_(new)
        self.replay()
        return self.loss.clone()  # the next step writes there

    def _record(self, inputs: Inputs) -> None:
        self.inputs = tuple(tensor.clone() for tensor in inputs)
        self.clear()
        self.replay, self.loss = self.recorder.record(lambda: self.compute(self.inputs))
