"""Alternative loader with NVIDIA DALI: its processes read and scale pieces of the files and copy
them to the GPU ahead of time. It has to be installed (`pip install nvidia-dali-cuda120`) and needs
a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from process.errors import ArgumentsError

if TYPE_CHECKING:
    from weather.samples import Batches, ForecastPairs, GlobalBatches, Sample


class BatchSource:
    """Source of samples for DALI's own processes, by the batch's number in the run."""

    def __init__(self, pairs: ForecastPairs, batches: GlobalBatches) -> None:
        self.pairs, self.batches, self.known = pairs, batches, {}

    known: dict[int, list[Any]]

    def __call__(self, info: Any) -> Any:
        epoch = info.epoch_idx + 1
        if info.iteration >= len(self.batches):
            raise StopIteration
        if epoch not in self.known:
            self.batches.epoch = epoch
            self.known = {epoch: list(self.batches)}
        key = self.known[epoch][info.iteration][info.idx_in_batch]
        return tuple(part.numpy() for part in self.pairs[key])


def dali_batches(
    pairs: ForecastPairs, batches: GlobalBatches, args: argparse.Namespace, device: torch.device
) -> Batches:
    refusal = ArgumentsError(
        "--loader dali needs a GPU and NVIDIA DALI (`pip install nvidia-dali-cuda120`); use "
        "--loader torch"
    )
    if device.type != "cuda":
        raise refusal
    try:
        from nvidia.dali import fn, pipeline_def, types
        from nvidia.dali.plugin.pytorch import DALIGenericIterator
    except ImportError as error:
        raise refusal from error

    def graph() -> Any:
        outputs = fn.external_source(
            source=BatchSource(pairs, batches), num_outputs=3, parallel=True, batch=False,
            dtype=[types.FLOAT, types.FLOAT, types.INT64],
        )  # fmt: skip
        return tuple(output.gpu() for output in outputs)

    made = pipeline_def(graph)(
        batch_size=batches.size // batches.ranks, num_threads=2, device_id=device.index,
        py_num_workers=max(1, args.num_workers), py_start_method="spawn",
        prefetch_queue_depth=args.prefetch,
    )  # fmt: skip
    made.build()
    names = ["now", "later", "corner"]
    iterator = DALIGenericIterator([made], names, auto_reset=True)

    def of_epoch(_epoch: int) -> Iterator[Sample]:
        for [batch] in iterator:
            yield batch["now"], batch["later"], batch["corner"]

    return of_epoch
