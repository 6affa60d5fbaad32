"""First causes in short logs, each written for one wording, and in logs without any words."""

from __future__ import annotations

import pytest

from course_lib import read
from course_lib.read.first_causes.rules import ROOT, RULES

MIB, GIB = 2**20, 2**30

IDS = [f"{number}-{rule.cause}" for number, rule in enumerate(RULES)]


def first_rule(line):
    return next((rule for rule in RULES if rule.matches(line.encode())), None)


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_takes_its_example_and_not_the_line_with_similar_words(rule):
    assert first_rule(rule.example) is rule
    assert not rule.matches(rule.counter_example.encode())


@pytest.mark.parametrize("before", ["", "0: [default1]:", "node7: ", "\x1b[31m"])
@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.tier == ROOT], ids=lambda r: r.cause
)
def test_the_example_of_a_root_is_a_cause_on_any_rank(write, rule, before):
    end = "srun: Force Terminated job 7\n"
    found = read.failure(write("a.log", f"hello\n{before}{rule.example}\n{end}"))
    assert (found.cause, found.line) == (rule.cause, 2)


def test_our_own_memory_limit_names_rank_node_and_sizes(write):
    text = next(rule.example for rule in RULES if rule.cause == "device_limit")
    found = read.failure(write("a.log", f"[rank3]: {text}"))
    assert (found.rank, found.node) == (3, "node2")
    assert found.details["tried_bytes"] == 512 * MIB
    assert found.details["total_bytes"] == GIB
    assert found.details["free_bytes"] == 100 * MIB


def test_cause_lies_in_another_ranks_file(write, tmp_path):
    waiting = (
        "[rank{r}]:[E410 17:25:53.848336558 ProcessGroupNCCL.cpp:683] [Rank {r}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
    )
    for rank in (0, 1, 2):
        write(f"run/rank{rank}.log", waiting.format(r=rank))
    write("run/rank3.log", "Traceback (most recent call last):\nZeroDivisionError: division by 0\n")
    found = read.failure(tmp_path / "run")
    assert (found.cause, found.rank) == ("python_error", 3)
    assert len(found.consequences) == 3


def test_earlier_of_two_nodes_by_time_not_by_name(write, tmp_path):
    write("run/node0.log", "2024-01-02 10:00:09 start\nValueError: late\n")
    write("run/node1.log", "2024-01-02 10:00:01 start\nKeyError: 'early'\n")
    assert "early" in read.failure(tmp_path / "run").evidence


def test_exception_without_a_usual_name_after_a_traceback(write):
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "a.py", line 3, in f\n'
        "[rank0]: something of another rank\n"
        "[rank1]:     launch()\n"
        "[rank1]: triton.runtime.errors.OutOfResources: out of resource: shared memory\n"
    )
    found = read.failure(write("a.log", text))
    assert (found.cause, found.rank, found.line) == ("python_error", 1, 5)
    assert found.details["type"] == "OutOfResources"


def test_error_that_the_run_survived_is_not_the_cause(write):
    steps = "".join(
        f" iteration {n}/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: 1.0 |\n"
        for n in range(1, 6)
    )
    end = next(rule.example for rule in RULES if rule.cause == "time_limit")
    text = "Traceback (most recent call last):\nValueError: optional\n" + steps
    assert read.failure(write("a.log", text + end)).cause == "time_limit"
    assert read.failure(write("b.log", text)) is None


def test_nan_iterations_without_any_error(write):
    text = "".join(
        f" iteration {n}/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: nan | "
        f"number of nan iterations: {n // 3} |\n"
        for n in range(1, 6)
    )
    found = read.failure(write("a.log", text))
    assert (found.cause, found.details["iteration"]) == ("nan_loss", 3)


def test_start_up_overflows_are_normal(write):
    text = "".join(
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
        f"{2.0**n}, reducing to {2.0 ** (n - 1)}\n"
        for n in range(32, 14, -1)
    )
    assert read.failure(write("a.log", text)) is None
