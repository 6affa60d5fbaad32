"""Groups of ranks, and errors that name the numbers and what would work."""

from __future__ import annotations

import pytest

from flags.arguments import parse_arguments
from parallel import layout
from parallel.layout import Grid, make_grid, make_layout
from parallel.layout_checks import grid_from
from process.errors import LayoutError


def grid(order="tp-cp-ep-dp-pp", **sizes):
    return Grid({"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 1} | sizes, order)


def test_eight_devices_with_tensor_four():
    both = grid(tp=4, dp=2)
    assert both.groups("tp") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert both.groups("dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_the_order_string_says_which_ranks_are_neighbours():
    assert grid("cp-tp-ep-dp-pp", tp=2, cp=2).groups("cp") == [[0, 1], [2, 3]]
    assert grid("tp-cp-ep-pp-dp", tp=1, pp=2, dp=2).groups("pp") == [[0, 1], [2, 3]]
    assert grid("tp-cp-ep-dp-pp", tp=1, pp=2, dp=2).groups("pp") == [[0, 2], [1, 3]]


@pytest.mark.parametrize("order", ["tp-dp", "tp-cp-ep-dp-pp-pp", "", "tp,cp,dp,pp"])
def test_an_order_that_misses_an_axis_is_refused(order):
    with pytest.raises(LayoutError, match="must name each of tp, cp, ep, dp, pp once"):
        make_grid(4, 1, 1, 1, order)


def check(flags, devices):
    return grid_from(parse_arguments(flags.split()), devices)


@pytest.mark.parametrize(
    ("flags", "devices", "told"),
    [
        ("--tensor-model-parallel-size 3", 4, "tensor 3 × context 1 × pipeline 1 = 3 devices"),
        ("--tensor-model-parallel-size 3 --num-attention-heads 4", 3, "multiple of 3"),
        ("--pipeline-model-parallel-size 3 --num-layers 4", 3, "use 3 or 6"),
        ("--micro-batch-size 2 --global-batch-size 6", 4, "micro batch 2 × data 4 = 8; use 8"),
        (
            "--num-layers 4 --num-layers-per-virtual-pipeline-stage 1 "
            "--pipeline-model-parallel-size 2 --global-batch-size 3",
            2,
            "multiples of pipeline 2; 3 samples make 3; use --global-batch-size 2 or 4",
        ),
        (
            "--tensor-model-parallel-size 4 --group-query-attention --num-query-groups 2",
            4,
            "--num-query-groups 2 cannot be shared by tensor 4; use a multiple of 4 (4)",
        ),
        ("--pipeline-schedule interleaved --pipeline-model-parallel-size 2", 2, "give both"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(flags, devices, told):
    with pytest.raises(LayoutError) as error:
        check(flags, devices)
    assert told in str(error.value)


class Talk:
    """Record of one rank's calls to torch while it makes its layout. A group is identified by its
    ranks."""

    def __init__(self, monkeypatch, backend, divides):
        self.calls = []
        monkeypatch.setattr(layout, "divides_at_once", lambda: divides)
        monkeypatch.setattr(layout.dist, "get_backend", lambda: backend)
        monkeypatch.setattr(layout.dist, "split_group", self.split)
        monkeypatch.setattr(layout.dist, "new_group", self.new)

    def split(self, split_ranks):
        self.calls.append(split_ranks)
        return next((ranks for ranks in split_ranks if self.rank in ranks), None)

    def new(self, ranks):
        self.calls.append(ranks)
        return ranks if self.rank in ranks else object()

    def of(self, world, rank):
        self.calls, self.rank = [], rank
        return make_layout(world, rank), self.calls


def handles(made):
    names = ("tensor", "context", "data", "pipeline", "data_context", "model", "ends")
    found = {name: getattr(made, name) for name in names}
    return {name: group.handle for name, group in found.items() if group.size > 1}, found


WORLDS = [
    grid(tp=2, dp=2, pp=2),
    grid(tp=2, cp=2, dp=2, pp=4),
    grid("pp-dp-cp-tp-ep", cp=2, pp=4),
]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("backend", "divides"), [("nccl", True), ("nccl", False), ("gloo", False)])
def test_all_ranks_make_the_same_calls_and_keep_their_own_groups(
    monkeypatch, world, backend, divides
):
    """Either all ranks or none split a communicator, and all count the groups for their names."""
    talk = Talk(monkeypatch, backend, divides)
    every = [talk.of(world, rank) for rank in range(world.world_size)]
    assert all(calls == every[0][1] for _, calls in every)
    for made, _ in every:
        kept, groups = handles(made)
        assert kept == {name: groups[name].ranks for name in kept}
        assert set(map(tuple, made.directions.values())) == {tuple(made.pipeline.ranks)}


def test_nccl_divides_once_for_each_axis_and_direction(monkeypatch):
    """This holds for any number of groups. Here there are 16 tensor groups and at least as many
    others."""
    talk = Talk(monkeypatch, "nccl", True)
    made, calls = talk.of(grid(tp=8, dp=4, pp=4), 0)
    assert len(calls) == len(["tp", "dp", "pp", "tp and pp", "ends"]) + len(made.directions)
    assert calls[-1] == [[n, n + 96] for n in range(32)]
