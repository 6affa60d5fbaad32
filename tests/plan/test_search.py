"""The search finds the same layouts as a trial of all layouts, and explains why others fail."""

import pytest

from course_lib.plan import PlanError, preset
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.layout_search import Choice, layout_text, search


@pytest.fixture(scope="module")
def found():
    return search(preset("13b"), cluster("juwels-booster", 32), 256)


def test_every_layout_found_divides_and_uses_all_devices(found):
    for estimate in (*found.fitting, *found.overflowing):
        estimate.layout.check(preset("13b"), devices=32)
        assert estimate.layout.global_batch == 256


def test_the_best_comes_first_and_none_of_the_others_is_faster(found):
    times = [estimate.seconds for estimate in found.fitting]
    assert times == sorted(times)
    assert found.best is found.fitting[0]
    assert all(estimate.fits for estimate in found.fitting)
    assert not any(estimate.fits for estimate in found.overflowing)


def test_where_pipelines_often_stalled_the_expected_time_orders_layouts():
    where = cluster("hf-h100", 512)
    found = search(preset("llama-8b"), where, 1024, Choice(tensor=(2, 4)), "nanotron").fitting
    expected = [estimate.expected_s for estimate in found]
    assert expected == sorted(expected)
    assert found[0].layout.pipeline == 1
    assert min(found, key=lambda estimate: estimate.seconds) is not found[0]


def test_on_the_frontier_less_time_costs_more_memory(found):
    front = found.frontier
    assert [e.seconds for e in front] == sorted(e.seconds for e in front)
    assert [e.device_gib for e in front] == sorted((e.device_gib for e in front), reverse=True)
    for estimate in found.fitting:
        assert any(
            best.seconds <= estimate.seconds and best.device_gib <= estimate.device_gib
            for best in front
        )


def test_the_table_names_what_overflows(found):
    table = found.table(3)
    assert len(table) == 6
    assert table.verdict.iloc[3:].str.contains("GiB too much, most of it").all()
    assert len(found.points()) == len(found.fitting) + len(found.overflowing)


def test_a_trillion_parameters_on_16384_devices_are_laid_out():
    choice = Choice(context=(1, 2, 4), zero=(0, 1))
    best = search(preset("1t"), cluster("dgx-h100", 16384), 4096, choice).best
    assert best.layout.devices == 16384
    assert best.layout.tensor == 8
    assert layout_text(best.layout).startswith("t8 p")


@pytest.mark.parametrize(("devices", "published_tflops"), [(8192, 430), (16384, 400)])
def test_126_layers_are_laid_out_on_powers_of_two(devices, published_tflops):
    """The plan is as fast as the training of Llama 3.1 (arXiv 2407.21783, Table 4), which used
    tensor 8 and 16 stages."""
    best = search(preset("llama-405b"), cluster("dgx-h100", devices), 2048).best
    assert best.tflops_per_device == pytest.approx(published_tflops, rel=0.15)
    assert best.layout.stages == "ends-count"
    assert "ends-count" in layout_text(best.layout)


def test_a_pipeline_may_shard_gradients():
    """So did the training of Llama 3.1."""
    choice = Choice(tensor=(2,), zero=(2,), recompute=("none",))
    found = search(preset("13b"), cluster("dgx-h100", 64), 512, choice).fitting
    assert {(e.layout.zero, e.layout.pipeline > 1) for e in found} >= {(2, True)}


@pytest.mark.parametrize("layers", [61, 94])
def test_any_number_of_layers_comes_to_any_number_of_stages(layers):
    model = preset("13b").but(layers=layers)
    best = search(model, cluster("dgx-h100", 64), 512, Choice(tensor=(1, 2))).fitting
    assert {estimate.layout.pipeline for estimate in best} >= {2, 4, 8}
    for estimate in best:
        estimate.layout.check(model)


def test_a_long_sequence_is_divided_among_context_ranks():
    long = preset("llama-8b").but(sequence=131072)
    assert search(long, cluster("dgx-h100", 64), 64).best.layout.context > 1


def test_what_cannot_fit_is_said_with_the_nearest():
    with pytest.raises(PlanError, match=r"no layout fits: the nearest needs .* use more devices"):
        _ = search(preset("1t"), cluster("selene", 8), 8).best


@pytest.mark.parametrize(
    ("changes", "batch", "choice", "reason"),
    [
        ({}, 1, Choice(tensor=(1,)), "micro_batch × data does not divide the batch"),
        ({"sequence": 1001}, 64, Choice(tensor=(2,)), "tensor 2 × context 1 .* the sequence"),
        ({"sequence": 1002}, 64, Choice((1,), (2,)), "tensor 1 × context 2 .* the sequence"),
        ({"sequence": 1001}, 64, Choice((128,)), "tensor 128 does not divide heads"),
    ],
)
def test_what_cannot_divide_is_said_with_the_reasons(changes, batch, choice, reason):
    model = preset("13b").but(**changes)
    with pytest.raises(PlanError, match=rf"no layout is possible: .*{reason}"):
        _ = search(model, cluster("selene", 64), batch, choice).best


def test_a_sequence_of_odd_length_needs_one_rank():
    found = search(preset("13b").but(sequence=1001), cluster("selene", 64), 64)
    assert {(e.layout.tensor, e.layout.context) for e in found.fitting} == {(1, 1)}


def test_a_choice_of_one_value_fixes_it():
    only = Choice(tensor=(2,), virtual=(1,), recompute=("full",))
    found = search(preset("13b"), cluster("selene", 32), 256, only)
    assert {(e.layout.tensor, e.layout.recompute) for e in found.fitting} == {(2, "full")}
