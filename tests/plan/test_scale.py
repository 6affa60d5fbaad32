"""Failures, checkpoints and price."""

from math import sqrt

import pytest

from course_lib.plan import Layout, PlanError, preset
from course_lib.plan.code_bases import STACKS
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.kept_work import Failures, daly_interval_s, useful_share, young_interval_s
from course_lib.plan.scale import campaign


@pytest.fixture(scope="module")
def gpt3():
    layout = Layout(
        tensor=8, pipeline=8, data=16, virtual=6, global_batch=1536, sequence_parallel=True, zero=1
    )
    return Estimate(preset("175b"), layout, cluster("selene", 1024), STACKS["megatron-core"])


def test_young_s_interval_is_the_root_of_twice_cost_times_mean_time():
    assert young_interval_s(60, 86_400) == pytest.approx(sqrt(2 * 60 * 86_400))


def test_daly_s_interval_loses_least_of_all_intervals():
    failures = Failures(node_mtbf_hours=1000, checkpoint_s=300, restart_s=600)
    best = daly_interval_s(300, failures.mtbf_s(64))
    shares = {factor: useful_share(best * factor, failures, 64) for factor in (0.8, 1, 1.25)}
    assert max(shares, key=lambda factor: shares[factor]) == 1


def test_without_failures_only_checkpoints_are_lost():
    rare = Failures(node_mtbf_hours=1e9, checkpoint_s=10, restart_s=600)
    assert useful_share(990, rare, 1) == pytest.approx(0.99, rel=1e-4)


def test_a_campaign_adds_failures_energy_and_price(gpt3):
    found = campaign(gpt3, 300e9, price_per_device_hour=2.0)
    assert found.days > found.days_without_failures == gpt3.days(300e9)
    assert found.days * 24 * 1024 == pytest.approx(found.device_hours)
    assert found.price == 2 * found.device_hours
    assert found.energy_mwh == pytest.approx(found.device_hours * 400e-6)
    assert found.expected_failures == pytest.approx(found.days * 24 / (6300 / 128))


def test_a_machine_that_fails_faster_than_it_saves_is_refused(gpt3):
    with pytest.raises(PlanError, match="no work is ever kept; use fewer nodes"):
        campaign(gpt3, 1e9, Failures(node_mtbf_hours=0.05, checkpoint_s=3600))
