"""Calibration recovers a site from its short runs, and links from their measurement."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from course_lib.plan import Layout, PlanError, preset
from course_lib.plan.code_bases import STACKS
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware import cpu_rates
from course_lib.plan.hardware.efficiency import LATE_SHARE, TURN_AFTER_COMPUTING
from course_lib.plan.hardware.machines import box
from course_lib.plan.hardware.measured_links import with_links
from course_lib.plan.time.calibration import Observation, calibrate
from course_lib.plan.time.communication import (
    Group,
    all_gather_s,
    all_reduce_s,
    reduce_scatter_s,
    ring_all_reduce_s,
)
from course_lib.plan.time.iteration import iteration_parts
from course_lib.plan.time.layer import layer_passes, setting

COURSE = STACKS["course"]
SLOW = replace(COURSE, host_forward_ms=1.2, host_backward_ms=1.8, iteration_ms=6)
SIZES = ((1, 1), (2, 8), (8, 4))


def site(share=0.3, memory=10.0, **changes):
    plain = box(**changes)
    return plain.but(device=replace(plain.device, lasting_share=share, memory_gb_per_s=memory))


def observed(where, stack, model="small"):
    runs = []
    for micro, count in SIZES:
        layout = Layout(micro_batch=micro, global_batch=micro * count, precision="fp32")
        seconds = sum(iteration_parts(preset(model), layout, where, stack).values())
        runs.append(Observation(preset(model), layout, seconds))
    return runs


def test_one_run_moves_the_constant_that_matters_most_and_meets_it():
    truth = site(share=0.2, memory=10)
    (run, *_) = observed(truth, COURSE)[2:]
    found = calibrate(site(share=0.6, memory=30), COURSE, [run])
    assert list(found.factors) == ["speed of the processor"]
    assert found.errors == pytest.approx([0], abs=0.01)
    assert found.cluster.device.lasting_share == pytest.approx(0.2, rel=0.02)


def test_three_runs_tell_a_slow_processor_from_a_slow_launcher():
    found = calibrate(site(share=1), COURSE, observed(site(share=3, memory=30), SLOW, "tiny"))
    assert found.cluster.device.lasting_share == pytest.approx(3, rel=0.25)
    assert found.stack.host_forward_ms == pytest.approx(1.2, rel=0.25)
    assert max(map(abs, found.errors)) < 0.03


def test_what_is_calibrated_on_one_model_predicts_another():
    truth = site(share=0.3)
    found = calibrate(site(share=0.6), COURSE, observed(truth, SLOW))
    layout = Layout(data=2, micro_batch=4, precision="fp32")
    expected = Estimate(preset("tiny"), layout, truth, SLOW).seconds
    predicted = Estimate(preset("tiny"), layout, found.cluster, found.stack).seconds
    assert predicted == pytest.approx(expected, rel=0.15)


def test_nothing_to_calibrate_on_is_said():
    with pytest.raises(PlanError, match="runs is empty; use a list such as"):
        calibrate(box(), COURSE, [])


RANKS = pd.DataFrame({"rank": [0, 1, 2], "node": ["node1", "node1", "node2"]})
PAIRS = pd.DataFrame(
    {
        "kind": ["point_to_point"] * 3 + ["all_reduce"],
        "source": [0, 0, 1, 0],
        "destination": [1, 2, 2, 0],
        "alpha_us": [20.0, 300.0, 340.0, 999.0],
        "bandwidth_gb_s": [2.0, 0.11, 0.13, 9.0],
    }
)


def test_one_run_among_eight_that_went_wrong_does_not_move_the_others():
    truth, runs = site(share=0.2), observed(site(share=0.2), COURSE) * 2
    wrong = replace(runs[0], seconds=runs[0].seconds * 10)
    found = calibrate(site(share=0.4), COURSE, [*runs, wrong])
    assert sorted(map(abs, found.errors))[4] < 0.08
    assert found.cluster.device.lasting_share < truth.device.lasting_share * 1.5


def test_links_inside_and_between_nodes_are_told_apart():
    found = with_links(box(), PAIRS, RANKS)
    assert (found.within.latency_us, found.within.gb_per_s) == (20, 2)
    assert (found.across.latency_us, found.across.gb_per_s) == (320, pytest.approx(0.12))


def samples(kind, pair, sizes_and_times):
    source, destination = pair
    return [
        {"kind": kind, "source": source, "destination": destination, "size_bytes": size,
         "time_us": time}
        for size, time in sizes_and_times
    ]  # fmt: skip


def test_a_burst_that_a_shaped_link_lets_pass_is_not_taken_for_bandwidth():
    """The link passes 40 kB at once and then 125 MB/s. A line through all sizes would show a much
    higher rate."""
    across = [(1e3, 50), (40e3, 60), (1e6, 7760), (4e6, 31760)]
    within = [(1e3, 20), (1e6, 520), (4e6, 2020)]
    everyone = [(1e3, 620), (4e3, 620), (16e3, 620)]
    table = pd.DataFrame(
        samples("point_to_point", (0, 1), within)
        + samples("point_to_point", (0, 2), across)
        + samples("all_reduce", (None, None), everyone)
    )
    found = with_links(box(processors=2), table, RANKS)
    assert found.across.gb_per_s == pytest.approx(0.125)
    assert found.within.gb_per_s == pytest.approx(2)
    assert found.turn_us == pytest.approx(620 / 4 - 50)
    assert with_links(box(processors=2), SimpleNamespace(samples=table, ranks=RANKS)) == found
    assert with_links(box(processors=4), table, RANKS).turn_us == box().turn_us


def test_ranks_that_keep_a_pace_share_no_processors_but_take_turns_for_their_messages():
    table = pd.DataFrame(samples("point_to_point", (0, 1), [(1e3, 20), (1e6, 520)]))
    machine, tiny = box(processors=2), preset("tiny")
    two, four = Layout(tensor=2), Layout(data=4)
    for paces, paced in (([3.0] * 3, True), ([1.0] * 3, False), ([float("nan")] * 3, False)):
        found = with_links(machine, table, RANKS.assign(pace=paces))
        sharing = iteration_parts(tiny, four, found, STACKS["course"])["sharing"]
        assert (found.paced, sharing == 0) == (paced, paced)
    assert not with_links(machine, table, RANKS).paced, "of an older program"
    quick, slow = (
        iteration_parts(tiny, two, found.but(paced=True, turn_us=turn), STACKS["course"])
        for turn in (0, 1000)
    )
    assert slow["tensor"] > quick["tensor"]


@pytest.mark.parametrize("usual_us", [620, 5000])
def test_ranks_that_come_from_computing_take_longer_turns_whatever_disturbed_the_measurement(
    usual_us,
):
    everyone = samples("all_reduce", (None, None), [(1e3, usual_us), (4e3, usual_us)])
    near = samples("point_to_point", (0, 1), [(1e3, 50), (1e6, 550)])
    far = samples("point_to_point", (0, 2), [(1e3, 60), (1e6, 8060)])
    table = pd.DataFrame(near + far + everyone).assign(fastest_us=[50.0, 550, 60, 8060, 500, 500])
    sending = with_links(box(processors=2), table, RANKS)
    computing = with_links(box(processors=2), table, RANKS.assign(pace=3.0))
    assert sending.turn_us == pytest.approx(usual_us / 4 - 60)
    assert computing.turn_us == pytest.approx(TURN_AFTER_COMPUTING * (500 / 4 - 60))


def test_a_link_has_the_latency_of_its_fastest_message_and_not_of_a_busy_processor():
    table = pd.DataFrame(samples("point_to_point", (0, 1), [(1e3, 900), (1e6, 1400), (4e6, 2900)]))
    table["fastest_us"] = [70, 600, 2100]
    within = with_links(box(), table, RANKS).within
    assert (within.latency_us, within.gb_per_s) == (70, pytest.approx(2))


def test_each_step_of_a_collective_waits_if_all_processors_are_busy():
    crowd, calm = (box(processors=2).but(turn_us=turn) for turn in (500, 0))
    two, four = Group(2, 2), Group(4, 2)
    assert crowd.crowded(1).turn_us == 0
    assert crowd.crowded(2) == crowd
    for collective, turns in ((all_gather_s, 4), (all_reduce_s, 6), (ring_all_reduce_s, 6)):
        for group, count in ((two, 2), (four, turns)):
            added = collective(crowd, group, 1e6) - collective(calm, group, 1e6)
            assert added == pytest.approx(count * 500e-6)


def test_a_sharded_model_waits_for_turns_in_each_layer():
    calm, crowd = (box(processors=2).but(turn_us=turn) for turn in (0, 1000))
    model, layout = preset("tiny"), Layout(data=4, zero=3)
    added_s = [iteration_parts(model, layout, c, STACKS["course"])["data"] for c in (calm, crowd)]
    pieces = model.layers + 1
    assert added_s[1] - added_s[0] == pytest.approx(pieces * (4 + 4 + 6) * 1e-3)


def test_a_group_that_meets_in_layers_waits_for_the_latest_of_those_that_keep_a_pace():
    def backward(layout, paced):
        where = box().but(turn_us=0, paced=paced)
        return layer_passes(setting(preset("small"), layout, where, STACKS["course"]))[1]

    two = Layout(tensor=2, micro_batch=4)
    at_once, paced = backward(two, False), backward(two, True)
    computed = at_once.matmul + at_once.attention + at_once.memory
    assert paced.tensor - at_once.tensor == pytest.approx(LATE_SHARE * computed)
    cut, cut_paced = (backward(Layout(context=2), paced) for paced in (False, True))
    assert cut_paced.context > cut.context
    assert cut_paced.tensor == 0
    assert backward(Layout(data=2), True) == backward(Layout(data=2), False)


def test_gloo_scatters_sums_by_an_all_reduce_of_the_whole():
    where, group = box().but(turn_us=0), Group(4, 2)
    reduced = reduce_scatter_s(where, group, 1e6, by_reducing=True)
    assert reduced == ring_all_reduce_s(where, group, 1e6)
    assert reduced == pytest.approx(2 * reduce_scatter_s(where, group, 1e6))


def test_what_waits_for_a_message_leaves_its_processor_to_others():
    layout = Layout(tensor=4, micro_batch=4, precision="fp32")
    parts = [
        Estimate(preset("small"), layout, site(processors=count), COURSE).parts for count in (2, 0)
    ]
    computing = sum(parts[0][kind] for kind in ("matmul", "attention", "memory", "launch"))
    assert parts[0]["tensor"] > parts[1]["tensor"] > 0
    assert parts[0]["sharing"] == pytest.approx(computing)
    assert "sharing" not in parts[1]


@pytest.mark.parametrize(
    ("flags", "bf16", "fp16"),
    [
        ("avx512f avx512_bf16 amx_bf16", 2.3, cpu_rates.EMULATED),
        ("avx512f avx512_fp16", 0.38, 2),
        ("sse", cpu_rates.EMULATED, cpu_rates.EMULATED),
    ],
)
def test_a_processor_tells_how_fast_it_multiplies_halves(tmp_path, monkeypatch, flags, bf16, fp16):
    monkeypatch.setattr(cpu_rates, "FLAGS", tmp_path / "cpuinfo")
    assert cpu_rates.products_relative_to_fp32() == {
        "bf16": cpu_rates.EMULATED,
        "fp16": cpu_rates.EMULATED,
    }
    cpu_rates.FLAGS.write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\nbugs\t\t:\n")
    device = box().device
    assert device.peak_tflops("bf16") / device.peak_tflops("fp32") == pytest.approx(bf16)
    assert device.peak_tflops("fp16") / device.peak_tflops("fp32") == pytest.approx(fp16)


def test_a_link_that_was_not_measured_stays_as_it_was():
    found = with_links(box(), PAIRS[:1], RANKS)
    assert found.across == box().across
    with pytest.raises(PlanError, match="no point_to_point pairs"):
        with_links(box(), PAIRS[3:], RANKS)


def test_ranks_that_share_processors_take_turns_and_a_bubble_is_used_by_others():
    model = preset("small")
    four = Layout(data=4, micro_batch=4, precision="fp32")
    shared = Estimate(model, four, site(processors=2), COURSE).parts
    busy = sum(shared[kind] for kind in ("matmul", "attention", "memory", "launch"))
    assert shared["sharing"] == pytest.approx(busy)
    piped = Layout(pipeline=4, micro_batch=1, global_batch=4, precision="fp32")
    parts = Estimate(model, piped, site(processors=2), COURSE).parts
    assert parts["sharing"] / sum(parts.values()) < shared["sharing"] / sum(shared.values())
