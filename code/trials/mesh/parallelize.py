"""Test 11b.1: `parallelize(model, mesh)` divides a small GPT with torch's own tools.

own = parallelize(model, mesh)     `mesh` has the dimensions "data" and "tensor"
y = own(tokens)                    the samples of this rank's row of the mesh, the same on a column
y.backward(dy)                     leaves the mean over "data" in the gradients

The mesh is 1 x 1, 1 x 2, 3 x 1 and 2 x 2, so that each dimension is also tested alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from trials.mesh.model import VOCABULARY, same_gpt
from trials.ranks import Ranks

SIZES = {1: (1, 1), 2: (1, 2), 3: (3, 1), 4: (2, 2)}  # number of ranks: sizes of data and tensor
SAMPLES, POSITIONS = 2, 8
COLUMNS, ROWS = ("embed", "query", "key", "value", "up", "head"), ("out", "down")
# Calls of forward on 2 x 2: the parameters of 3 wrapped modules, the positions 5 times, the logits.
FORWARD = {"all_gather_single": 9, "reduce_scatter_single": 5}


def test(parallelize: Any, ranks: Ranks) -> None:
    data, tensor = SIZES[ranks.size]
    mesh = init_device_mesh("cpu", (data, tensor), mesh_dim_names=("data", "tensor"))
    serial, own = same_gpt(ranks.seed), same_gpt(ranks.seed)
    tokens = torch.randint(VOCABULARY, (data * SAMPLES, POSITIONS))
    own = ranks.run(f"mesh of {data} x {tensor}", parallelize, own, mesh) or own
    for name, parameter in own.named_parameters():
        is_part(name, parameter, ranks)
    ranks.holds("wrapped", all(isinstance(one, FSDPModule) for one in (*own.blocks, own)))
    (dy,) = ranks.draw((data * SAMPLES, POSITIONS, VOCABULARY))
    mine, slope = (one.chunk(data)[mesh.get_local_rank("data")] for one in (tokens, dy))
    with ranks.phase("forward"):
        y = own(mine)
    ranks.same("y", y, serial(mine).detach())
    made = Counter(one["call"] for one in ranks.calls.made if one["phase"] == "forward")
    ranks.holds("calls", ranks.size < 4 or made == FORWARD,
                calls=[f"{count} {call}" for call, count in sorted(made.items())])  # fmt: skip
    with ranks.phase("backward"):
        y.backward(slope)
    serial(tokens).backward(dy / data)
    found = {n: getattr(p.grad, "full_tensor", bool)() for n, p in own.named_parameters()}
    mean = {name: one.grad for name, one in serial.named_parameters() if one.grad is not None}
    for what, of_norms in (("the gradient", False), ("the gradient of a norm", True)):
        some = {name: one for name, one in mean.items() if ("norm" in name) == of_norms}
        twice = {name: one / data for name, one in some.items()}
        ranks.same(what, found, some, mistakes={"averaged twice": twice})


def is_part(name: str, parameter: Tensor, ranks: Ranks) -> None:
    """Check which dimension of the parameter each dimension of the mesh divides."""
    *_, layer, kind = name.split(".")
    wanted = 0 if layer in COLUMNS else 1 if layer in ROWS and kind == "weight" else None
    placed: dict[str, int | None] = {}
    if isinstance(parameter, DTensor):
        dims = [getattr(placement, "dim", None) for placement in parameter.placements]
        placed = dict(zip(parameter.device_mesh.mesh_dim_names or (), dims, strict=True))
    right = [*placed][:1] == ["data"] and placed["data"] == 0 and placed.get("tensor") == wanted
    ranks.holds("parts", right, part=name, has=str(placed),
                wanted=str({"data": 0, "tensor": wanted}))  # fmt: skip
