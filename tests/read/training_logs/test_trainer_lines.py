"""Each rule for a trainer's line matches its example, but not a line with similar words."""

from __future__ import annotations

import pytest

from course_lib.read.training_logs.trainer_lines import RULES

from .printed import feed


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_takes_its_example_and_not_the_line_with_similar_words(rule):
    assert list(rule.rows(rule.example.encode()))
    assert not list(rule.rows(rule.counter_example.encode()))


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.table not in ("run", "arguments")], ids=lambda r: r.name
)
def test_the_example_fills_the_table_of_its_rule(rule):
    before = " iteration 7/ 9 | elapsed time per iteration (ms): 5.0 |\n"
    log = feed(("" if rule.table == "others" else before) + rule.example + "\n")
    table = getattr(log, "iterations" if rule.table == "others" else rule.table)
    assert len(table) == (3 if rule.name == "old_timers" else 1)
    if rule.table == "notes":
        assert table["kind"].tolist() == [rule.name]
    if rule.table == "iterations":
        assert table["tflops_per_device"].tolist() == [41.26]
