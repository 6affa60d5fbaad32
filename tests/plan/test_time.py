"""Time: laws that hold for any constants, and published runs within their intervals."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from course_lib.plan import Layout, Model, Observation, PlanError, calibrate, preset
from course_lib.plan.code_bases import STACKS
from course_lib.plan.estimate import Estimate, predict
from course_lib.plan.hardware.cluster import Cluster, Device, Link, Tier
from course_lib.plan.hardware.machines import CLUSTERS, DEVICES, box, cluster, device
from course_lib.plan.published.intervals import RESIDUALS, time_keys
from course_lib.plan.schedules.costs import idle_s
from course_lib.plan.time.communication import Group, all_gather_s, all_reduce_s, group_of
from course_lib.plan.time.iteration import iteration_parts
from course_lib.plan.time.kernels import matmul_s
from course_lib.plan.time.layer import layer_passes, setting

PLAIN = Device("plain", 80, 1000, bf16_tflops=100)
PAIR = Cluster("pair", PLAIN, 4, Link(10, 100), Link(50, 10), nodes=4)


def run(changes, name="13b", where="selene", stack="megatron-core"):
    layout = Layout(**changes)
    return Estimate(preset(name), layout, cluster(where, layout.devices), STACKS[stack])


def test_both_ends_of_a_pipeline_sum_their_shared_embeddings():
    layout, box_ = Layout(pipeline=4, global_batch=8), box()
    model = preset("tiny")
    tied, untied = (
        iteration_parts(model.but(tied=is_tied), layout, box_, STACKS["course"])["pipeline"]
        for is_tied in (True, False)
    )
    words_bytes = model.vocabulary * model.hidden * 4
    link_s = words_bytes / (box_.across.gb_per_s * 1e9)
    assert link_s < tied - untied < 1.2 * link_s


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


@pytest.mark.parametrize(("micro_batch", "launched_ms"), [(1, 0.35), (2, 0.0)])
def test_a_softmax_of_matrices_in_fours_is_fused(micro_batch, launched_ms):
    stack = STACKS["megatron-deepspeed"]
    model = Model("small", layers=16, hidden=1024, heads=16, vocabulary=51200, sequence=1024)
    layout = Layout(
        tensor=8, micro_batch=micro_batch, global_batch=8, recompute="full", flash=False
    )
    single, fused = (
        Estimate(model, layout, cluster("selene", 8), one).seconds
        for one in (stack, replace(stack, host_softmax_ms=0))
    )
    passes = 3 * model.layers * layout.micro_batches  # forward, again for backward, backward
    assert single - fused == pytest.approx(passes * launched_ms / 1e3, rel=0.05, abs=1e-9)


def test_without_a_switch_two_of_four_have_a_third_of_the_links():
    meshed = PAIR.but(switched=False)
    fast, slow = (all_gather_s(c, Group(2, 2), 1e12) for c in (PAIR, meshed))
    assert slow / fast == pytest.approx(3, rel=1e-3)


def test_a_transfer_hides_beside_a_matmul_and_no_longer_than_the_matmul_takes():
    """Between nodes, the transfer takes longer than the matmul."""
    half = replace(STACKS["nanotron"], tensor_overlap=0.5)
    for tensor, shorter in ((8, "tensor"), (16, "matmul")):
        layout = Layout(tensor=tensor, micro_batch=4, global_batch=4, sequence_parallel=True)
        where = cluster("hf-h100", tensor)
        hidden, shown = (
            layer_passes(setting(preset("llama-8b"), layout, where, stack))[1]
            for stack in (half, replace(half, tensor_overlap=0))
        )
        assert shown.tensor - hidden.tensor == pytest.approx(getattr(shown, shorter) / 2)


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
        seconds = matmul_s(a100, "bf16", 2024, shape)
        assert seconds > 2 * m * n * k / 312e12
        assert seconds > 2 * (m * k + k * n + m * n) / 2.039e12


def test_twice_the_micro_batches_take_twice_the_work_but_the_same_bubble():
    one, two = (run({"pipeline": 4, "global_batch": batch}).parts for batch in (16, 32))
    assert two["matmul"] == pytest.approx(2 * one["matmul"])
    assert two["bubble"] == pytest.approx(one["bubble"])


def test_the_bubble_follows_the_schedule():
    plain = Layout(pipeline=4, global_batch=8)
    shares = [
        idle_s(layout, [1.0] * 4) / layout.micro_batches
        for layout in (plain, plain.but(virtual=3), plain.but(schedule="zero-bubble"))
    ]
    assert shares == pytest.approx([3 / 8, 1 / 8, 1 / 8])


def test_even_stages_wait_as_long_as_the_schedule_says():
    model = Model("even", 64, 8192, 64, 2048, 128)
    layout = Layout(pipeline=4, global_batch=8)
    parts = iteration_parts(model, layout, cluster("selene", 4), STACKS["megatron-core"])
    busy = sum(parts[kind] for kind in ("matmul", "attention", "memory", "tensor", "launch"))
    assert parts["bubble"] / busy == pytest.approx(3 / 8, rel=0.1)


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


PUBLISHED = {
    # arXiv 2205.05198, Table 5, with sequence parallelism: layers, hidden, heads, layout, seconds
    "22B": (48, 6144, 64, {"micro_batch": 4}, 1.10),
    "175B": (96, 12288, 96, {"pipeline": 8, "virtual": 3, "global_batch": 64}, 13.75),
    "530B": (105, 20480, 128, {"pipeline": 35, "virtual": 3, "global_batch": 280}, 37.83),
    "1T": (128, 25600, 160, {"pipeline": 64, "global_batch": 512}, 71.49),
}
MEGATRON = {
    "tensor": 8, "sequence_parallel": True, "recompute": "selective", "flash": False,
    "precision": "fp16",
}  # fmt: skip


def published(name):
    layers, hidden, heads, changes, seconds = PUBLISHED[name]
    return Observation(
        Model(name, layers, hidden, heads, 2048, 51200), Layout(**MEGATRON, **changes), seconds
    )


def error(run, where, stack):
    parts = iteration_parts(run.model, run.layout, where.but(nodes=64), stack)
    return abs(sum(parts.values()) / run.seconds - 1)


@pytest.mark.parametrize(
    ("told", "judged"), [(("22B", "530B"), ("175B", "1T")), (("175B", "1T"), ("22B", "530B"))]
)
def test_published_times_are_met_by_what_other_published_runs_teach(told, judged):
    """The device's own rate, which was fitted to these runs, is removed first."""
    stack = STACKS["megatron-2021"]
    ignorant = cluster("selene").but(device=replace(device("A100-80GB"), lasting_share=0.4))
    found = calibrate(ignorant, stack, [published(name) for name in told])
    for name in judged:
        assert error(published(name), ignorant, stack) > 0.2
        assert error(published(name), found.cluster, found.stack) < 0.1


OF_2021 = {"global_batch": 1536, "recompute": "full", "precision": "fp16", "flash": False}


def test_zero_3_of_2021_is_far_slower_on_many_devices_than_parts_of_a_model():
    """Megatron-LM 2104.04473, Section 5.2: 66.7 s beside 20.8 s, for 175 B on 1536 A100."""
    sharded = run({"data": 1536, "zero": 3, **OF_2021}, "175b", stack="megatron-deepspeed")
    parts = {"tensor": 8, "pipeline": 12, "data": 16}
    parallel = run({**parts, **OF_2021}, "175b", stack="megatron-deepspeed")
    assert sharded.seconds == pytest.approx(66.7, rel=0.25)
    assert parallel.seconds == pytest.approx(20.8, rel=0.1)
    assert sharded.interval.low < 66.7 < sharded.interval.high


def test_gathers_of_every_layer_wait_longer_in_a_larger_ring():
    def data_s(devices):
        layout = Layout(data=devices, zero=3, global_batch=devices)
        where = cluster("selene", devices)
        return iteration_parts(preset("13b"), layout, where, STACKS["unknown"])["data"]

    one = 8e-6  # latency of the network, for each of 3 × 41 rings of all devices
    assert data_s(1024) - data_s(512) == pytest.approx(3 * 41 * 512 * one, rel=0.05)


def test_the_interval_is_that_of_the_nearest_kind_of_run_that_was_measured():
    estimate = run({"tensor": 2, "pipeline": 4, "global_batch": 16}, where="dgx-h100")
    table = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    keys = time_keys(estimate.model, estimate.layout, estimate.cluster, estimate.stack)
    row = next(table[key] for key in keys if key in table)
    assert estimate.interval == (estimate.seconds * row["low"], estimate.seconds * row["high"])
    assert estimate.evidence.runs == row["runs"]


# Goals that the planner misses; docs/evidence.md says by how much, and why.
SHORTFALLS = {
    "vTrain on several nodes, mean %",
    "other code on more H100, median %",
}


def test_four_of_five_runs_lie_in_intervals_that_were_made_without_them(shared, repository):
    command = [sys.executable, str(repository / "benchmarks" / "planner.py"), "--held-out"]
    done = subprocess.run(
        [*command, "--rows", "0", str(shared / "truth")],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    found = [line.removeprefix("MISSED") for line in lines if line.startswith("MISSED")]
    missed = {line.split("time, ")[-1].split(":")[0].strip() for line in found}
    assert missed == SHORTFALLS, done.stderr
    (runs,) = (line.split() for line in lines if line.startswith("all runs "))
    (families,) = (line.split() for line in lines if line.startswith("mean of families "))
    assert 75 <= float(runs[3]) <= 85  # of a known code base
    assert 75 <= float(families[5]) <= 85  # of an unknown one


@pytest.mark.parametrize(
    ("precision", "layout", "layers", "heads", "hidden", "ffn", "measured_s"),
    [
        ("bf16", {"data": 4, "context": 2, "global_batch": 128}, 32, 32, 4096, 14336, 12.91),
        ("fp8", {"data": 4, "context": 2, "global_batch": 128}, 32, 32, 4096, 14336, 9.67),
        (
            "bf16",
            {
                "data": 2,
                "tensor": 4,
                "pipeline": 4,
                "context": 2,
                "virtual": 5,
                "global_batch": 128,
            },
            *(80, 64, 8192, 28672, 14.72),
        ),
    ],
)
def test_llama_runs_of_nvidia_on_h100_are_met(
    precision, layout, layers, heads, hidden, ffn, measured_s
):
    """Llama 3.1 in NeMo 24.09: github.com/NVIDIA/dgxc-benchmarking, v25.01."""
    llama = preset("llama-8b").but(layers=layers, heads=heads, hidden=hidden, ffn=ffn)
    spread = Layout(precision=precision, zero=1, sequence_parallel="tensor" in layout, **layout)
    found = predict(llama, spread, cluster("dgx-h100", spread.devices), "nemo")
    assert found.seconds == pytest.approx(measured_s, rel=0.05)


def test_eight_bits_speed_up_linear_layers_and_nothing_else():
    bf16, fp8 = (
        run({"precision": name, "global_batch": 8}, name="llama-8b", where="dgx-h100")
        for name in ("bf16", "fp8")
    )
    assert fp8.parts["attention"] == bf16.parts["attention"]
    assert fp8.parts["memory"] > bf16.parts["memory"]  # scaling and rounding take passes
    assert 0.5 < fp8.parts["matmul"] / bf16.parts["matmul"] < 0.7
    assert fp8.fullest.activations < bf16.fullest.activations
    assert fp8.mfu < bf16.mfu  # of a peak twice as high


def test_a_format_that_a_device_does_not_multiply_is_refused():
    with pytest.raises(PlanError, match=r"no mxfp8 peak of H100 is known; use fp32 or .* or fp8"):
        run({"precision": "mxfp8"}, name="gpt2", where="dgx-h100").seconds  # noqa: B018
    with pytest.raises(PlanError, match="no fp8 peak of A100-80GB is known"):
        run({"precision": "fp8"}, name="gpt2").seconds  # noqa: B018


def test_newer_libraries_multiply_faster_on_a_new_device_and_not_on_an_old_one():
    old, new = (replace(STACKS["megatron-core"], libraries=year) for year in (2023, 2024))
    for where, is_new in (("dgx-h100", True), ("selene", False), ("lumi", False)):
        layout = Layout(global_batch=8)
        times = [
            Estimate(preset("13b"), layout, cluster(where), stack).parts["matmul"]
            for stack in (old, new)
        ]
        assert (times[1] < times[0]) == is_new


def test_the_verdict_follows_the_interval():
    small = run({"global_batch": 1}, name="175b")
    assert (small.fits, small.verdict) == (False, "overflows")
    roomy, tight = (run({"micro_batch": size}, name="gpt2") for size in (64, 104))
    assert (roomy.fits, roomy.verdict) == (True, "fits")
    assert (tight.fits, tight.verdict) == (True, "tight")  # no room for the logits twice


def test_the_chance_of_overflow_follows_the_measured_memory():
    estimate = run({"micro_batch": 104}, name="gpt2")
    low, high = estimate.memory_interval_gib
    chances = {low: 0.9, (low * high) ** 0.5: 0.5, high: 0.1}  # 80 % lie between low and high
    for capacity, chance in chances.items():
        assert estimate.memory_interval_gib.chance_above(capacity) == pytest.approx(chance)
    assert f"chance of overflow {estimate.overflow_chance:.0%}" in str(estimate)
    assert run({"global_batch": 1}, name="175b").overflow_chance > 0.9 > estimate.overflow_chance


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
