"""Who does what: rank groups, and errors that name the numbers and what would work."""

from __future__ import annotations

import pytest

from flags.arguments import parse_arguments
from parallel.layout import Grid, make_grid
from parallel.layout_checks import chunks_per_rank, describe, grid_from, micro_batches
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


def test_groups_over_two_axes_are_the_ranks_with_the_same_parameters():
    all_axes = grid(tp=2, cp=2, dp=2)
    assert all_axes.groups("dp", "cp") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_position_and_rank_are_inverse():
    some = grid("pp-dp-cp-tp-ep", tp=2, cp=3, dp=2, pp=4)
    assert [some.rank(some.position(rank)) for rank in range(48)] == list(range(48))


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
        ("--context-parallel-size 2 --seq-length 30", 2, "use 28 or 32"),
        ("--micro-batch-size 2 --global-batch-size 6", 4, "micro batch 2 × data 4 = 8; use 8"),
        ("--micro-batch-size 2 --global-batch-size 20", 4, "use 16 or 24"),
        ("--num-layers-per-virtual-pipeline-stage 1", 1, "needs --pipeline-model-parallel-size 2"),
        (
            "--num-layers 4 --num-layers-per-virtual-pipeline-stage 1 "
            "--pipeline-model-parallel-size 2 --global-batch-size 3",
            2,
            "multiples of pipeline 2; 3 samples make 3; use --global-batch-size 2 or 4",
        ),
        (
            "--tensor-model-parallel-size 4 --group-query-attention --num-query-groups 2",
            4,
            "--num-query-groups 2 cannot be shared by tensor 4: each tensor rank needs keys and "
            "values of its own; use 4 groups",
        ),
        ("--use-torch-fsdp2 --pipeline-model-parallel-size 2", 2, "use-distributed-optimizer"),
        ("--pipeline-schedule interleaved --pipeline-model-parallel-size 2", 2, "give both"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(flags, devices, told):
    with pytest.raises(LayoutError) as error:
        check(flags, devices)
    assert told in str(error.value)


def test_everything_that_does_not_fit_is_told_at_once():
    with pytest.raises(LayoutError, match=r"heads 4 .*num-layers 4 .*global-batch-size 5"):
        check(
            "--tensor-model-parallel-size 3 --pipeline-model-parallel-size 3 --num-layers 4 "
            "--global-batch-size 5 --micro-batch-size 2",
            9,
        )


def test_micro_batches_follow_from_the_batch():
    flags = "--micro-batch-size 2 --global-batch-size 16 --num-layers 4"
    args = parse_arguments(flags.split())
    assert micro_batches(args, grid_from(args, 2)) == 4
    assert chunks_per_rank(args) == 1


def test_a_layout_can_be_described_without_devices():
    args = parse_arguments(["--tensor-model-parallel-size", "2", "--global-batch-size", "2"])
    assert describe(args, grid_from(args, 4)).splitlines() == [
        "4 devices, order tp-cp-ep-dp-pp, 1 micro-batches",
        "tensor   2: [0, 1] [2, 3]",
        "data     2: [0, 2] [1, 3]",
    ]
