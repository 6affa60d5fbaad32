"""Attention over sequences split over ranks: by hand, and with torch's `context_parallel`.

    torchrun --nproc-per-node 2 code/twins/context_parallel.py

Each rank has an early and a late piece of the sequence, and keys and values go round a ring. By
hand, this is `attend_in_a_ring`; `attend_over_ranks` gathers them instead. In PyTorch, a context
manager splits the tensors in the same way and replaces scaled_dot_product_attention. PyTorch knows
the GPU's kernels only (2.13); `on_processors` adds the kernel for processors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from parallel.context_parallel import attend_over_ranks, my_positions
from parallel.layout import Group
from parallel.ring_attention import attend_in_a_ring

SAMPLES, HEADS, POSITIONS, WIDTH = 2, 3, 16, 8
FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def whole() -> list[Tensor]:
    """Return query, key, value and gradient of the output, [samples, heads, positions, width]."""
    torch.manual_seed(0)
    shape = (SAMPLES, HEADS, POSITIONS, WIDTH)
    return [torch.randn(shape, dtype=torch.float64) for _ in range(4)]


def by_hand(attend: Any, group: Group) -> list[Tensor]:
    """Return this rank's output, and the gradients of its queries, keys and values."""
    positions = my_positions(POSITIONS, group)
    # [positions here, samples, heads, width]
    parts = [x[:, :, positions].permute(2, 0, 1, 3).contiguous() for x in whole()]
    query, key, value = (x.requires_grad_() for x in parts[:3])
    out = attend(query, key, value, group)
    out.backward(parts[3])
    results = (out.detach(), query.grad, key.grad, value.grad)
    return [x.permute(1, 2, 0, 3) for x in results if x is not None]


def with_torch() -> list[Tensor]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    handlers: dict[Any, Any] = ring.custom_ops
    handlers.update({FORWARD: on_processors, BACKWARD: on_processors})
    ring._cp_options.convert_to_f32 = False  # sum in float64
    buffers = whole()
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4):
        # Inside, the buffers hold this rank's pieces.
        query, key, value = (x.clone().requires_grad_() for x in buffers[:3])
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out.backward(buffers[3])
        results = [out.detach(), query.grad, key.grad, value.grad]
        return [x.clone() for x in results if x is not None]


def on_processors(operator: Any, arguments: Any, named: Any) -> tuple[DTensor, ...]:
    """Run one attention operator on DTensors, with torch's ring and the processors' kernel."""
    mesh, placements = arguments[0].device_mesh, arguments[0].placements
    local = [x.to_local() for x in arguments if isinstance(x, DTensor)]
    forward: Any = ring._templated_ring_attention
    backward: Any = ring._templated_ring_attention_backward
    if operator == FORWARD:
        found = forward(mesh.get_group(), 2, operator, *local, True)
    else:
        first = (mesh.get_group(), 2, operator, local[0], "grad_out")
        found = backward(*first, *local[1:], True, dropout_p=0.0)
    return tuple(DTensor.from_local(x, mesh, placements) for x in found)


def largest_difference() -> float:
    """Return the largest difference between the three ways, over all results on this rank."""
    group = Group(list(range(dist.get_world_size())), dist.get_rank(), dist.group.WORLD)
    torchs, ways = with_torch(), (attend_in_a_ring, attend_over_ranks)
    pairs = [p for way in ways for p in zip(by_hand(way, group), torchs, strict=True)]
    return max(float((one - other).abs().max()) for one, other in pairs)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()}: largest difference {largest_difference():.1e}")
    dist.destroy_process_group()
