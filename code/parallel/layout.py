"""Rank grid and its groups: which part each rank has.

Every rank has one coordinate on each of five axes:

    tp  tensor     holds a slice of every matrix
    cp  context    holds a slice of every sequence
    ep  expert     holds different experts: only in the second division of the ranks, see below
    dp  data       holds different samples
    pp  pipeline   holds different layers

In an order such as "tp-cp-ep-dp-pp", the first axis varies fastest: its neighbours are neighbouring
ranks, on one node with fast links.

A mixture of experts divides the same ranks a second time, for the experts alone. A pipeline stage's
tp × cp × dp ranks are then etp × ep × edp: slices of an expert's matrices, other experts, and
copies of the same experts. So experts may be distributed over ranks that are data ranks for the
rest of the model. Both divisions have the same pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import torch.distributed as dist
from torch import Tensor

from parallel.routes import WAYS
from process.errors import LayoutError

AXES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}
DEFAULT_ORDER = "tp-cp-ep-dp-pp"


@dataclass(frozen=True)
class Grid:
    """Arithmetic of ranks, without processes.

    With 8 ranks, tp 2, dp 2 and pp 2 in the default order:

        groups("tp")   [0, 1] [2, 3] [4, 5] [6, 7]
        groups("dp")   [0, 2] [1, 3] [4, 6] [5, 7]
        groups("pp")   [0, 4] [1, 5] [2, 6] [3, 7]"""

    sizes: dict[str, int]
    order: str = DEFAULT_ORDER
    experts: Grid | None = None  # the experts' division: its own tp, and cp 1

    @property
    def axes(self) -> list[str]:
        return self.order.split("-")

    @property
    def world_size(self) -> int:
        return prod(self.sizes.values())

    def rank(self, at: dict[str, int]) -> int:
        # Coordinates are the digits of the rank: one step on an axis is the product of the sizes of
        # all axes before it.
        rank, stride = 0, 1
        for axis in self.axes:
            rank += at[axis] * stride
            stride *= self.sizes[axis]
        return rank

    def position(self, rank: int) -> dict[str, int]:
        at = {}
        for axis in self.axes:
            rank, at[axis] = divmod(rank, self.sizes[axis])
        return at

    def group_of(self, rank: int, axes: Sequence[str]) -> list[int]:
        """Return the ranks that differ from `rank` in these axes only, including itself,
        ascending."""
        here = self.position(rank)
        ranges = [range(self.sizes[axis]) for axis in axes]
        return sorted(
            self.rank({**here, **dict(zip(axes, at, strict=True))}) for at in product(*ranges)
        )

    def groups(self, *axes: str) -> list[list[int]]:
        """Return all groups along the axes; `groups("tp")` are the tensor-parallel groups."""
        found = {tuple(self.group_of(rank, axes)) for rank in range(self.world_size)}
        return [list(ranks) for ranks in sorted(found)]


def make_grid(world_size: int, tensor: int, context: int, pipeline: int, order: str) -> Grid:
    """Build the grid; data parallelism gets the ranks that the other axes leave."""
    axes = order.split("-")
    if pipeline == 1 and "pp" not in axes:
        axes.append("pp")  # axis of one rank: its position does not matter
    if sorted(axes) not in (sorted(AXES), sorted(set(AXES) - {"ep"})):
        raise LayoutError(
            f"--rank-order {order!r} must name each of {', '.join(AXES)} once, joined by dashes; "
            f"ep may be missing, and pp without a pipeline. The usual order is {DEFAULT_ORDER}"
        )
    model_ranks = tensor * context * pipeline
    if world_size % model_ranks:
        fitting = [n for n in (model_ranks, 2 * model_ranks, 4 * model_ranks)]
        raise LayoutError(
            f"{world_size} device{'s' * (world_size > 1)} cannot be split into copies of tensor "
            f"{tensor} × context {context} × pipeline {pipeline} = {model_ranks} devices; start "
            f"{', '.join(map(str, fitting))} … devices, or choose --tensor-model-parallel-size and "
            f"the other sizes so that their product divides {world_size}"
        )
    sizes = {"tp": tensor, "cp": context, "dp": world_size // model_ranks, "pp": pipeline}
    if "ep" in axes:
        sizes["ep"] = 1
    return Grid(sizes, "-".join(axes))


def expert_grid(grid: Grid, expert: int, expert_tensor: int) -> Grid:
    """Divide the same ranks for experts; the sizes leave the ranks for copies of experts."""
    stage, wanted = grid.world_size // grid.sizes["pp"], expert * expert_tensor
    if stage % wanted:
        raise LayoutError(
            f"the {stage} rank{'s' * (stage > 1)} of a pipeline stage (tensor × context × data) "
            f"cannot be shared by expert {expert} × expert tensor {expert_tensor} = {wanted}; "
            f"choose --expert-model-parallel-size and --expert-tensor-parallel-size whose product "
            f"divides {stage}"
        )
    sizes = {"tp": expert_tensor, "cp": 1, "ep": expert, "dp": stage // wanted}
    order = grid.order if "ep" in grid.axes else grid.order.replace("dp", "ep-dp")
    found = Grid({**sizes, "pp": grid.sizes["pp"]}, order)
    if found.groups("pp") != grid.groups("pp"):
        raise LayoutError(
            f"--rank-order {grid.order} gives the experts other pipelines than the rest of the "
            f"model; use an order that ends with pp, such as {DEFAULT_ORDER}"
        )
    return found


@dataclass(frozen=True)
class Group:
    """Ranks that communicate, and this rank's index among them."""

    ranks: list[int]
    index: int
    handle: Any = None  # None if the rank is alone: nothing is sent

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def first(self) -> bool:
        return self.index == 0

    @property
    def last(self) -> bool:
        return self.index == self.size - 1


ALONE = Group([0], 0)  # no other rank has a part


@dataclass(frozen=True)
class ExpertGroups:
    """Second division, from the view of one rank."""

    tensor: Group  # slices of the same experts' matrices
    expert: Group  # other experts
    exchange: Group  # both: ranks that together hold each expert of a layer once
    data: Group  # copies of the same slices; gradients are summed over them
    micro_batch: Group  # tensor × context: ranks that have rows of the same micro-batch
    stage: Group  # all ranks with the same layers
    owners: list[list[int]]  # [expert rank][slice] → its index in `exchange`


@dataclass(frozen=True)
class Layout:
    """The grid of ranks, as one rank sees it."""

    grid: Grid
    rank: int
    tensor: Group
    context: Group
    data: Group
    pipeline: Group
    data_context: Group  # ranks with the same parameters; gradients are summed over them
    model: Group  # tensor × pipeline: ranks that together hold each parameter once
    ends: Group  # first and last pipeline stage, which share the word embeddings
    everyone: Group
    directions: dict[str, Any] = field(default_factory=dict)  # pipeline messages: way → handle
    experts: ExpertGroups | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Return sizes by axis, without ep, which is always 1."""
        return {AXES[axis]: size for axis, size in self.grid.sizes.items() if axis != "ep"}

    def sum_of_losses(self, total: Tensor) -> Tensor:
        """Sum over all tokens: tensor ranks have the same loss, other pipeline stages have none."""
        # One all-reduce over all ranks instead of one per axis, and every rank may print the loss.
        if self.everyone.size > 1:
            dist.all_reduce(total, group=self.everyone.handle)
        return total / self.tensor.size


class _Maker:
    """Factory of process groups that creates each division of the ranks once, even for several
    axes.

    Every rank makes the same calls in the same order, so that the groups' names agree."""

    def __init__(self, grid: Grid, rank: int) -> None:
        self.grid, self.rank = grid, rank
        self.made: dict[tuple[tuple[int, ...], ...], Any] = {}

    def along(self, *axes: str, of: Grid | None = None) -> Group:
        grid = of or self.grid
        return self.mine(grid.groups(*(a for a in axes if a in grid.sizes)))

    def mine(self, groups: list[list[int]]) -> Group:
        """Return the group that contains this rank."""
        division = tuple(map(tuple, groups))
        if division not in self.made:
            self.made[division] = self.handle(groups)
        ranks = next((ranks for ranks in groups if self.rank in ranks), [self.rank])
        return Group(ranks, ranks.index(self.rank), self.made[division])

    def handle(self, groups: list[list[int]]) -> Any:
        if len(groups[0]) == 1:
            return None
        if len(groups[0]) == self.grid.world_size:
            return dist.group.WORLD
        return self.fresh(groups)

    def fresh(self, groups: list[list[int]]) -> Any:
        """Create the groups. NCCL splits a communicator for all groups at once, with all ranks: one
        by one, hundreds of ranks would wait hundreds of times for each other. With other backends
        only members take part; the other ranks only count, for the names."""
        if divides_at_once():
            return dist.split_group(split_ranks=groups)
        made = {tuple(ranks): dist.new_group(ranks) for ranks in groups}
        return next((group for ranks, group in made.items() if self.rank in ranks), None)


def divides_at_once() -> bool:
    """Return True if the ranks have a communicator on their devices that can be split."""
    world: Any = dist.group.WORLD
    if world.bound_device_id is None:
        return False
    return bool(world._get_backend(world.bound_device_id).supports_splitting)


def make_layout(grid: Grid, rank: int) -> Layout:
    make = _Maker(grid, rank)
    groups = {
        "tensor": make.along("tp"),
        "context": make.along("cp"),
        "data": make.along("dp"),
        "pipeline": make.along("pp"),
        "data_context": make.along("dp", "cp"),
        "model": make.along("tp", "pp"),
        "everyone": make.mine([list(range(grid.world_size))]),
    }
    directions = _directions(make, groups["pipeline"])
    # Last, since stages between the ends get no group: torch names groups by how many a rank has.
    experts = _expert_groups(make, grid.experts) if grid.experts else None
    ends = make.mine([sorted({ranks[0], ranks[-1]}) for ranks in grid.groups("pp")])
    return Layout(grid=grid, rank=rank, ends=ends, directions=directions, experts=experts, **groups)


def _expert_groups(make: _Maker, grid: Grid) -> ExpertGroups:
    exchange = make.along("tp", "ep", of=grid)
    here, slices = grid.position(make.rank), range(grid.sizes["tp"])
    owners = [
        [exchange.ranks.index(grid.rank({**here, "ep": ep, "tp": tp})) for tp in slices]
        for ep in range(grid.sizes["ep"])
    ]
    return ExpertGroups(
        tensor=make.along("tp", of=grid),
        expert=make.along("ep", of=grid),
        exchange=exchange,
        data=make.along("dp", of=grid),
        micro_batch=make.along("tp", "cp"),
        stage=make.along("tp", "cp", "ep", "dp"),
        owners=owners,
    )


def _directions(make: _Maker, pipeline: Group) -> dict[str, Any]:
    """Return the group for each direction of activations and gradients.

    NCCL runs messages between two ranks in the order of issue, one after the other, so that both
    directions on one communicator could deadlock. gloo distinguishes messages by tags."""
    if pipeline.size == 1 or dist.get_backend() == "gloo":
        return dict.fromkeys(WAYS, pipeline.handle)
    return {way: make.fresh(make.grid.groups("pp")) for way in WAYS}
