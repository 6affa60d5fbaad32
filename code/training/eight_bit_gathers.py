"""FSDP2's gathers of weights in eight bits (--fp8-param-gather): half the bytes of bfloat16.

Each rank quantises its shard of a matrix with the scale of the whole matrix, and sends eight bits.
The gathered numbers are those that the layer's own quantisation would give. It then quantises them
once more, which changes nothing, since scales are powers of two. So the results are the same.

This holds for `tensorwise` only: other recipes have different scales for W and its transpose. The
shards, from which the optimizer continues, keep their precision.

FSDP2 calls one method of a shard's class before a gather, for what to send, and one after it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from parallel.layout import Group
from process.pace import communicating
from training.eight_bits import E4M3, TOP, EightBits, scale_to

ATEN = torch.ops.aten
# What FSDP2 does to make shards of a matrix, whose results are shards too.
KEPT = {
    ATEN.detach.default, ATEN.split.Tensor, ATEN.slice.Tensor, ATEN.view.default,
    ATEN.new_zeros.default, ATEN.as_strided.default, ATEN.clone.default, ATEN._to_copy.default,
}  # fmt: skip


class EightBitShard(Tensor):
    """Matrix, or a shard of it, which FSDP2 gathers in eight bits; `plain` has its numbers."""

    plain: Tensor
    others: tuple[Group, ...]  # ranks with other slices of the matrix, beside its other shards

    @staticmethod
    def __new__(cls, plain: Tensor) -> EightBitShard:
        shape, strides = plain.size(), plain.stride()
        made = Tensor._make_wrapper_subclass(
            cls, shape, strides, plain.storage_offset(), dtype=plain.dtype, device=plain.device
        )
        made.plain = plain
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operator: Any, types: Any, args: Any = (), named: Any = None
    ) -> Any:
        """Apply an operator to the numbers."""
        args, named = tree_map_only(cls, lambda shard: shard.plain, (args, named or {}))
        out = operator(*args, **named)
        return tree_map_only(Tensor, cls, out) if operator in KEPT else out

    def fsdp_pre_all_gather(
        self, mesh: Any, size: torch.Size, strides: Any, module: Any, policy: Any
    ) -> tuple[tuple[Tensor], Tensor]:
        """Return the tensor to send, which has the same size on every rank, and the scale."""
        shard = self.plain.to(policy.param_dtype or self.dtype)
        wide = torch.promote_types(shard.dtype, torch.float32)
        rows = -(-size[0] // mesh.size())  # the last shards may be smaller
        numbers = torch.zeros(rows, *shard.shape[1:], dtype=wide, device=shard.device)
        numbers[: shard.shape[0]] = shard
        largest = numbers.abs().amax()
        with communicating("communication: largest number"):
            for handle in (mesh.get_group(), *(g.handle for g in self.others if g.size > 1)):
                dist.all_reduce(largest, dist.ReduceOp.MAX, group=handle)
        scale = scale_to(TOP[E4M3], largest)
        return ((numbers * scale).to(E4M3),), scale

    def fsdp_post_all_gather(
        self, gathered: tuple[Tensor], scale: Tensor, dtype: torch.dtype, *, out: Any = None
    ) -> Any:
        """Return the matrix and what FSDP2 may free. If FSDP2 gives a freed `out`, fill it."""
        numbers = (gathered[0].to(scale.dtype) / scale).to(dtype)
        if out is None:
            return numbers, (numbers,)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(out):
            out.copy_(numbers[: out.shape[0]])
        return None


def numbers_of(shard: Tensor) -> Tensor:
    """Return the numbers of a shard of any kind."""
    return shard.plain if isinstance(shard, EightBitShard) else shard


def gather_in_eight_bits(stage: nn.Module) -> int:
    """Prepare every matrix of a linear layer, before fully_shard; return their elements."""
    elements = 0
    for layer in stage.modules():
        fp8 = getattr(layer, "fp8", None)
        if isinstance(fp8, EightBits) and isinstance(layer.weight, nn.Parameter):
            groups = {"others": (fp8.inputs, fp8.outputs)}
            kind = type("EightBitShard", (EightBitShard,), groups)
            elements += layer.weight.numel()
            layer.weight = nn.Parameter(kind(layer.weight.detach()))
    return elements
