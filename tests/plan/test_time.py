"""Time: laws that hold whatever the constants are, and published runs within their interval."""

import pytest

from course_lib.plan import Layout, Model, PlanError, preset
from course_lib.plan.code_bases import STACKS
from course_lib.plan.estimate import Estimate, largest_micro_batch, predict
from course_lib.plan.hardware.cluster import Cluster, Device, Link, Tier
from course_lib.plan.hardware.machines import CLUSTERS, DEVICES, cluster, device
from course_lib.plan.schedules.costs import bubble_share
from course_lib.plan.time.communication import Group, all_gather_s, all_reduce_s, group_of
from course_lib.plan.time.iteration import iteration_parts
from course_lib.plan.time.kernels import matmul_s

PLAIN = Device("plain", 80, 1000, bf16_tflops=100)
PAIR = Cluster("pair", PLAIN, 4, Link(10, 100), Link(50, 10), nodes=4)


def run(changes, name="13b", where="selene", stack="megatron-core"):
    layout = Layout(**changes)
    return Estimate(preset(name), layout, cluster(where, layout.devices), STACKS[stack])


def test_an_all_reduce_of_a_ring_takes_alpha_and_beta():
    group = Group(4, 4)
    size = 1e9
    expected = 6 * 10e-6 + 2 * 3 / 4 * size / 100e9
    assert all_reduce_s(PAIR, group, size) == pytest.approx(expected)
    assert all_gather_s(PAIR, group, size) == pytest.approx(expected / 2)


def test_between_nodes_the_members_of_a_node_pool_its_network():
    alone, together = Group(4, 1), Group(16, 4)
    size = 1e9
    assert all_gather_s(PAIR, alone, size) == pytest.approx(3 * 50e-6 + 0.75 * size / 10e9)
    assert all_gather_s(PAIR, together, size) == pytest.approx(15 * 50e-6 + 15 / 16 * size / 40e9)


def test_without_a_switch_two_of_four_have_a_third_of_the_links():
    meshed = PAIR.but(switched=False)
    fast, slow = (all_gather_s(c, Group(2, 2), 1e12) for c in (PAIR, meshed))
    assert slow / fast == pytest.approx(3, rel=1e-3)


def test_a_group_that_reaches_past_a_tier_gets_its_share():
    tiered = PAIR.but(tiers=(Tier(nodes=2, share=0.5),))
    layout = Layout(tensor=4, data=4)
    group = group_of(layout, tiered, "dp")
    assert (group.size, group.per_node, group.reach) == (4, 1, 4)
    assert all_gather_s(tiered, group, 1e12) == pytest.approx(
        2 * all_gather_s(PAIR, group, 1e12), rel=1e-3
    )


def test_a_matrix_product_is_never_faster_than_its_arithmetic_or_its_memory():
    a100 = device("A100-80GB")
    for shape in ((8192, 8192, 8192), (16, 8192, 8192), (4096, 1, 4096)):
        m, n, k = shape
        seconds = matmul_s(a100, "bf16", shape)
        assert seconds > 2 * m * n * k / 312e12
        assert seconds > 2 * (m * k + k * n + m * n) / 2.039e12


def test_twice_the_micro_batches_take_twice_the_work_but_the_same_bubble():
    one, two = (run({"pipeline": 4, "global_batch": batch}).parts for batch in (16, 32))
    assert two["matmul"] == pytest.approx(2 * one["matmul"])
    assert two["bubble"] == pytest.approx(one["bubble"])


def test_the_bubble_follows_the_schedule():
    plain = Layout(pipeline=4, global_batch=8)
    shares = [
        bubble_share(layout)
        for layout in (plain, plain.but(virtual=3), plain.but(schedule="zero-bubble"))
    ]
    assert shares == pytest.approx([3 / 8, 1 / 8, 1 / 8])


def test_even_stages_wait_as_long_as_the_schedule_says():
    model = Model("even", 64, 8192, 64, 2048, 128)
    layout = Layout(pipeline=4, global_batch=8)
    parts = iteration_parts(model, layout, cluster("selene", 4), STACKS["megatron-core"])
    busy = sum(parts[kind] for kind in ("matmul", "attention", "memory", "tensor", "launch"))
    assert parts["bubble"] / busy == pytest.approx(bubble_share(layout), rel=0.1)


def test_full_recomputation_adds_the_forward_pass_and_nothing_else():
    plain = run({"global_batch": 4})
    again = run({"global_batch": 4, "recompute": "full"})
    assert again.seconds - plain.seconds == pytest.approx(again.parts["recompute"])
    assert again.mfu < plain.mfu
    assert again.hfu > again.mfu


def test_parts_add_up_to_the_total_and_the_table_says_so():
    estimate = run({"tensor": 2, "pipeline": 4, "data": 4, "global_batch": 64, "zero": 1})
    table = estimate.table()
    for what, total in (("time", estimate.seconds), ("memory", estimate.device_gib)):
        rows = table[table.of == what].set_index("part").value
        assert rows["total"] == total
        assert rows.drop("total").sum() == pytest.approx(total)


@pytest.mark.parametrize(
    ("name", "changes", "seconds"),
    [
        # arXiv 2205.05198, Table 5; 2104.04473, Table 1 (from its FLOP/s)
        ("175b", {"tensor": 8, "pipeline": 8, "virtual": 3, "global_batch": 64}, 13.75),
        ("1t", {"tensor": 8, "pipeline": 64, "global_batch": 512}, 71.49),
    ],
)
def test_published_iteration_times_are_met_within_ten_percent(name, changes, seconds):
    more = {"sequence_parallel": True, "recompute": "selective", "flash": False}
    estimate = run(changes | more | {"precision": "fp16"}, name, stack="megatron-2021")
    assert estimate.seconds == pytest.approx(seconds, rel=0.1)


def test_the_interval_lies_around_the_prediction_and_the_verdict_follows_it():
    estimate = run({"tensor": 2, "pipeline": 4, "global_batch": 16})
    low, high = estimate.interval
    assert low < estimate.seconds < high * 1.1
    small = run({"global_batch": 1}, name="175b")
    assert (small.fits, small.verdict) == (False, "overflows")


def test_the_largest_micro_batch_is_the_last_that_fits():
    layout, where = Layout(global_batch=4), cluster("selene")
    best = largest_micro_batch(preset("gpt2"), layout, where)
    verdicts = [
        Estimate(
            preset("gpt2"),
            layout.but(micro_batch=size, global_batch=4 * size),
            where,
            STACKS["megatron-core"],
        ).fits
        for size in (best, best + 1)
    ]
    assert verdicts == [True, False]


def test_unknown_values_are_unknown_and_the_error_says_which():
    with pytest.raises(PlanError, match="no bf16 peak of V100-32GB is known; use fp32 or fp16"):
        run({"precision": "bf16"}, name="gpt2", where="dgx-2").mfu  # noqa: B018
    with pytest.raises(PlanError, match="power_watt of GH200-96GB is unknown"):
        run({}, name="gpt2", where="gh200").energy_mwh(1e9)
    assert DEVICES["GH200-96GB"].power_watt is None


def test_a_layout_larger_than_the_cluster_is_refused_with_the_nodes_it_needs():
    with pytest.raises(
        PlanError, match=r"needs 16 devices and selene has 1 nodes × 8 = 8; use .*2"
    ):
        predict(preset("gpt2"), Layout(data=16), cluster("selene"))


def test_answers_follow_from_the_iteration_time():
    estimate = run({"data": 8, "global_batch": 64})
    assert estimate.tokens_per_s == pytest.approx(64 * 2048 / estimate.seconds)
    assert estimate.seconds_for(20e6) == pytest.approx(20e6 / estimate.tokens_per_s)
    assert estimate.device_hours(1e9) == pytest.approx(24 * 8 * estimate.days(1e9))
    assert estimate.energy_mwh(1e9) == pytest.approx(estimate.device_hours(1e9) * 400 / 1e6)


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_cluster_of_the_table_can_be_planned_for(name):
    where = cluster(name)
    precision = "bf16" if where.device.bf16_tflops else "fp16"
    layout = Layout(data=where.devices, precision=precision, zero=1)
    assert 0 < predict(preset("gpt2"), layout, where).mfu < 1
