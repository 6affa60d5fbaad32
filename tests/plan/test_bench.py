"""The benchmark of lesson 15, planned."""

import pytest

from course_lib.cli import main
from course_lib.plan.bench import CASES, plan_case, time_to_report_s


def test_published_rates_make_the_published_times_to_report():
    times = {tag: round(time_to_report_s(c.published_tokens_per_s), 2) for tag, c in CASES.items()}
    assert times == {"13": 329.07, "175": 554.70}


@pytest.mark.parametrize("tag", CASES)
def test_the_plan_is_near_the_published_rate_and_fills_the_published_nodes(tag):
    estimate = plan_case(tag)
    assert estimate.cluster.nodes == CASES[tag].nodes
    assert estimate.tokens_per_s == pytest.approx(CASES[tag].published_tokens_per_s, rel=0.2)
    low, high = estimate.interval
    measured = estimate.tokens / CASES[tag].published_tokens_per_s
    assert low <= measured <= high


def test_the_command_prints_planned_beside_published_and_says_that_nothing_ran(capsys):
    assert main(["bench", "--tag", "175"]) == 0
    text = capsys.readouterr().out
    assert "Planned, not run: juwels-booster" in text
    assert "36055.39" in text
    assert "554.70" in text
    assert "accepted" in text


def test_an_unknown_machine_is_refused_with_those_there_are(capsys):
    assert main(["bench", "--tag", "13", "--machine", "abacus"]) == 2
    assert "there are: dgx-2" in capsys.readouterr().out
