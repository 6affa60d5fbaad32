"""How ranks share the training of the weather model: samples over dp alone, matrices over tp,
patches over cp. All ranks of one copy of the model read the same samples."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from parallel.layout import Grid, Layout, make_grid
from parallel.layout_checks import near
from process.errors import LayoutError
from weather.samples import ForecastPairs


def grid_of(args: argparse.Namespace, ranks: int) -> Grid:
    tensor, context = args.tensor_model_parallel_size, args.context_parallel_size
    return make_grid(ranks, tensor, context, 1, args.rank_order)


def sharing_problems(args: argparse.Namespace, ranks: int) -> list[str]:
    """What can be said without the data."""
    found, tensor = [], args.tensor_model_parallel_size
    if args.num_heads % tensor:
        found.append(
            f"--num-heads {args.num_heads} cannot be shared by tensor {tensor}; use a multiple of "
            f"{tensor} ({near(args.num_heads, tensor)})"
        )
    if args.torch_compile and tensor * args.context_parallel_size > 1:
        found.append(
            "--torch-compile true makes one graph of a rank's own work, and tensor and context "
            "ranks exchange in the middle of it; give --torch-compile false"
        )
    try:
        data = grid_of(args, ranks).sizes["dp"]
    except LayoutError as error:
        return [*found, *error.problems]
    if args.global_batch_size % data:
        fitting = args.global_batch_size // data * data or data
        found.append(
            f"--global-batch-size {args.global_batch_size} cannot be shared evenly by {data} data "
            f"ranks; {fitting} can"
        )
    return found


def check_patches(pairs: ForecastPairs, context: int) -> None:
    """Asked when the size of the planet is known, which may be that of a piece."""
    patches = (pairs.rows // pairs.patch) * (pairs.columns // pairs.patch)
    if patches % context:
        fitting = [str(n) for n in range(1, 2 * context) if patches % n == 0]
        raise LayoutError(
            [f"--context-parallel-size {context}: {pairs.rows} × {pairs.columns} points are "
             f"{patches} patches, which so many ranks cannot share evenly; {', '.join(fitting)} "
             "can, or take pieces of another --crop-height and --crop-width"]
        )  # fmt: skip


def averaged(
    plain: nn.Module, args: argparse.Namespace, layout: Layout, device: torch.device
) -> nn.Module:
    """With gradients averaged over all copies of a weight: those of other data ranks, which saw
    other samples, and those of other context ranks, which saw other patches."""
    if layout.copies.size == 1:
        return plain
    return DistributedDataParallel(
        plain,
        [device.index] if device.type == "cuda" else None,
        process_group=layout.copies.handle,
        bucket_cap_mb=args.ddp_bucket_mb,
    )


class SlicesScaler(ShardedGradScaler):
    """Skips a step on all tensor ranks where one of them finds an overflow in its slices."""

    def step(self, optimizer: torch.optim.Optimizer, *more: object) -> float | None:
        self.unscale_(optimizer)  # here it asks the others, which a fused optimizer would not
        return super().step(optimizer, *more)


def loss_scaler(
    args: argparse.Namespace, layout: Layout, device: torch.device
) -> torch.amp.GradScaler:
    enabled = args.amp_mode == "fp16"
    if layout.tensor.size == 1:  # an average over copies has the overflow of each
        return torch.amp.GradScaler(device.type, enabled=enabled)
    return SlicesScaler(device.type, enabled=enabled, process_group=layout.tensor.handle)
