"""FSDP2: data parallelism with sharded parameters and gradients. PyTorch gathers parameters layer
by layer when they are needed (--use-torch-fsdp2).

The class has the interface of data_parallel.py's `Replicated`, for optimizer and pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from parallel.data_parallel import Part
from parallel.layout import Group, Layout
from parallel.tensor_parallel import cuts_of, is_partial
from training.eight_bit_gathers import gather_in_eight_bits, numbers_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor

    from training.model import Stage


class FullySharded:
    """Parameters in FSDP2: each rank has a slice of each, gathered when needed."""

    def __init__(
        self, stage: Stage, layout: Layout, low: torch.dtype | None, eight_bits: bool = False
    ) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self.layout, self.stage = layout, stage
        self.cut = {n for n, p in stage.named_parameters() if cuts_of(p)}
        self.partial = {n for n, p in stage.named_parameters() if is_partial(p)}
        count = sum(p.numel() for p in stage.parameters())
        short = gather_in_eight_bits(stage) if eight_bits else 0
        wide = (low or next(stage.parameters()).dtype).itemsize
        # Received by a rank when everything is gathered once; forward and backward each do it.
        others = 1 - 1 / layout.data_context.size
        self.gathered_bytes = round(((count - short) * wide + short) * others)
        # Gathered parameters are cast to the low precision, which halves the traffic; gradients are
        # summed in float32, since many small numbers are added.
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32 if low else None)
        device = next(stage.parameters()).device.type
        mesh = _mesh(layout.data_context, device)
        # Each layer is gathered just before it runs, and freed after: at most two layers are
        # complete at a time (the next one is gathered while this one computes). The rest,
        # embeddings and last norm, is gathered with the root.
        for layer in stage.layers.values():
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        self.sharded = fully_shard(stage, mesh=mesh, mp_policy=policy)
        sharded: list[Any] = [*stage.layers.values(), stage]
        # Sums, not FSDP's means: to multiply each gradient by three ranks first would change its
        # rounding to eight bits.
        for module in sharded:
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
        # The first gather copies uneven shards of a special class to padded tensors. Here, before
        # the optimizer gets them.
        for module in sharded if eight_bits else []:
            module.unshard()
            module.reshard()
        # While the stage is gathered, its attributes are FSDP's whole tensors. Gradients, optimizer
        # and checkpoints use the slices, so they are stored here once.
        self.slices: dict[str, Any] = dict(stage.named_parameters())
        self.norm_group = layout.everyone

    def parts(self) -> list[Part]:
        tensor = self.layout.tensor
        return [
            Part(
                numbers,
                p.grad.to_local() if p.grad is not None else torch.zeros_like(numbers),
                decays=p.ndim > 1,
                counted=name in self.cut or tensor.first,
            )
            for name, p in self.slices.items()
            for numbers in [numbers_of(p.to_local())]
        ]

    def by_name(self, values: list[Tensor]) -> dict[str, Tensor]:
        pairs = zip(self.slices.items(), values, strict=True)
        return {name: _as(p, value).full_tensor() for (name, p), value in pairs}

    def from_names(self, named: dict[str, Tensor], like: list[Tensor]) -> list[Tensor]:
        from torch.distributed.tensor import distribute_tensor

        return [
            distribute_tensor(named[name], p.device_mesh, p.placements).to_local()
            for name, p in self.slices.items()
        ]

    def tensors(self) -> dict[str, list[Tensor]]:
        parts = self.parts()
        return {
            "parameters": [part.parameter for part in parts],
            "gradients": [part.gradient for part in parts],
        }

    def zero(self) -> None:
        for p in self.slices.values():
            p.grad = None

    def last_backward(self, last: bool) -> None:
        # Gradients of earlier micro-batches stay whole on every rank and are reduce-scattered once,
        # with the last: fewer messages at the cost of memory for unsharded gradients.
        self.sharded.set_requires_gradient_sync(last)

    def evaluated(self) -> None:
        """Free the gathered root: FSDP does this in backward, which evaluation does not run."""
        self.sharded.reshard()

    def reduce(self) -> None:
        """Sum over tensor ranks; FSDP has already summed over data ranks."""
        if self.layout.tensor.size > 1:
            by_rows = self.stage.args.sequence_parallel
            for name, p in self.slices.items():
                if name in self.partial or (by_rows and name not in self.cut):
                    dist.all_reduce(p.grad.to_local(), group=self.layout.tensor.handle)

    def gather(self) -> None:
        """Do nothing: FSDP gathers before the next forward."""


def _as(parameter: Any, values: Tensor) -> DTensor:
    """Return the values as a DTensor with the sharding of this parameter."""
    from torch.distributed.tensor import DTensor

    mesh, placements = parameter.device_mesh, parameter.placements
    return DTensor.from_local(
        values.detach(), mesh, placements, shape=parameter.shape, stride=parameter.stride()
    )


def _mesh(group: Group, device: str) -> DeviceMesh:
    from torch.distributed.device_mesh import DeviceMesh

    if group.handle is None:
        return DeviceMesh(device, group.ranks)
    return DeviceMesh.from_group(group.handle, device)
