"""Goodput: the useful share of the time if nodes fail, and how often to save."""

from math import sqrt

import pytest

from course_lib import plan
from course_lib.plan import Failures, PlanError
from course_lib.plan.kept_work import PUBLISHED, useful_share


@pytest.mark.parametrize(("nodes", "saves_s"), [(2, 5.0), (48, 60.0), (2048, 30.0)])
def test_the_interval_lies_in_the_flat_bottom_of_what_is_lost(nodes, saves_s):
    failures = Failures(checkpoint_s=saves_s)
    best = plan.checkpoint_interval(saves_s, failures.mtbf_s(nodes))
    most = useful_share(best, failures, nodes)
    for factor in (0.5, 0.7, 1.4, 2.0):
        share = useful_share(best * factor, failures, nodes)
        assert share <= most + 1e-6
        assert share > 0.95 * most, "half or twice as often costs little"


def test_the_first_order_is_the_root_of_twice_cost_times_mean_time():
    assert plan.checkpoint_interval(8, 900, first_order=True) == pytest.approx(sqrt(2 * 8 * 900))


@pytest.mark.parametrize("nodes", [1, 2, 100, 2048, 20_000])
def test_shares_add_up_to_one(nodes):
    found = plan.goodput(nodes)
    parts = (found.useful, found.saving, found.restarting, found.repeating)
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= 0


def test_the_published_run_of_16_384_devices_is_met():
    """The authors of the run report more than 90 % effective training time."""
    failures = plan.failures_of("llama-405b", restart_s=600, checkpoint_s=30)
    table = plan.goodputs([16, 16_384], failures).set_index("devices")
    assert table.mtbf_hours[16_384] == pytest.approx(54 * 24 / 419)
    assert 85 < table.useful_percent[16_384] < 97 < table.useful_percent[16]
    assert "Llama 3" in failures.source


def test_published_rates_lie_within_a_factor_of_four():
    rates = [run.node_mtbf_hours for run in PUBLISHED.values()]
    assert max(rates) < 4 * min(rates)


def test_writing_behind_costs_repeated_work_instead_of_standing_still():
    standing = plan.goodput(2048, Failures(checkpoint_s=60))
    behind = plan.goodput(2048, Failures(checkpoint_s=3, written_behind_s=60))
    assert behind.useful > standing.useful
    assert behind.saving < standing.saving


@pytest.mark.parametrize("run", ["gpt-9", 3, None])
def test_an_unknown_run_is_answered_with_those_that_are_known(run):
    with pytest.raises(PlanError, match="use one of llama-405b, opt-175b"):
        plan.failures_of(run)
