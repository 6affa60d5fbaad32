"""The search finds what trying everything finds, and says why the rest cannot be."""

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


def test_what_cannot_fit_is_said_with_the_nearest():
    with pytest.raises(PlanError, match=r"no layout fits: the nearest needs .* use more devices"):
        _ = search(preset("1t"), cluster("selene", 8), 8).best


def test_what_cannot_divide_is_said_with_the_reasons():
    with pytest.raises(PlanError, match=r"no layout divides: .*does not divide the batch"):
        _ = search(preset("13b"), cluster("selene", 64), 1, Choice(tensor=(1,))).best


def test_a_choice_of_one_value_fixes_it():
    only = Choice(tensor=(2,), virtual=(1,), recompute=("full",))
    found = search(preset("13b"), cluster("selene", 32), 256, only)
    assert {(e.layout.tensor, e.layout.recompute) for e in found.fitting} == {(2, "full")}
