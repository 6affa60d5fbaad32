"""Distribution of the weather model: samples over dp, matrices over tp, patches over cp. All ranks
of one copy of the model read the same samples."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parallel.layout import Grid, Group, Layout, make_grid
from parallel.layout_checks import uneven
from process.errors import LayoutError
from weather.samples import ForecastPairs


def grid_of(args: argparse.Namespace, ranks: int) -> Grid:
    tensor, context = args.tensor_model_parallel_size, args.context_parallel_size
    return make_grid(ranks, tensor, context, 1, args.rank_order)


def sharing_problems(args: argparse.Namespace, ranks: int) -> list[str]:
    """Return problems of the layout that do not depend on the data."""
    found = uneven(args, [("num_heads", args.tensor_model_parallel_size, "tensor")])
    try:
        data = grid_of(args, ranks).sizes["dp"]
    except LayoutError as error:
        return [*found, *error.problems]
    if args.global_batch_size % data:
        fitting = args.global_batch_size // data * data or data
        found.append(
            f"--global-batch-size {args.global_batch_size} cannot be divided by {data} data "
            f"ranks; use {fitting}"
        )
    return found


def check_patches(pairs: ForecastPairs, layout: Layout) -> None:
    """Check that context ranks can share the patches evenly, when the size of the data is known."""
    patches = (pairs.rows // pairs.patch) * (pairs.columns // pairs.patch)
    context = layout.context.size
    if patches % context:
        raise LayoutError(
            f"--context-parallel-size {context} cannot share the {patches} patches of "
            f"{pairs.rows} × {pairs.columns} points evenly; use a number that divides them, or "
            "another --crop-height and --crop-width"
        )


def averaged(
    plain: nn.Module, args: argparse.Namespace, layout: Layout, device: torch.device
) -> nn.Module:
    """Average gradients over all copies of a weight: data ranks had different samples, and context
    ranks different patches."""
    if layout.data_context.size == 1:
        return plain
    return DistributedDataParallel(
        plain,
        [device.index] if device.type == "cuda" else None,
        process_group=layout.data_context.handle,
        bucket_cap_mb=args.ddp_bucket_mb,
    )


class SlicesScaler(torch.amp.GradScaler):
    """Gradient scaler: an overflow on one tensor rank skips the step on all of them."""

    def __init__(self, device: torch.device, enabled: bool, tensor: Group) -> None:
        super().__init__(device.type, enabled=enabled)
        self.tensor = tensor

    def _unscale_grads_(self, *asked: Any) -> dict[torch.device, torch.Tensor]:
        found = super()._unscale_grads_(*asked)
        if self.tensor.size > 1:  # the average over copies already has the overflow of each
            for overflow in found.values():
                dist.all_reduce(overflow, dist.ReduceOp.MAX, group=self.tensor.handle)
        return found
