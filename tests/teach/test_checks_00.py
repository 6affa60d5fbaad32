"""Lesson 00: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from course_lib.lab.job.recipes import shell
from course_lib.teach.checks import lesson00

from .answers_to_try import hold
from .finished_runs import hint_of

RIGHT = "local 0\nlocal 2\nlocal 1\n" * 2
NOT_FOUND = "bash: pyhton: command not found\n"


def local(nodes=2, command="srun bash -c 'echo …'", **directives):
    return shell.recipe(
        "local", command, nodes=nodes, directives=directives or {"ntasks-per-node": 3}
    )


@pytest.mark.parametrize(
    "recipe",
    [
        local(ntasks=6),
        local(command="srun --ntasks-per-node=3 bash -c 'echo …'", exclusive=""),
        local(command="srun -n 6 bash -c 'echo …'", exclusive=""),
    ],
)
def test_tasks_may_be_asked_for_in_other_ways(finished, recipe):
    lesson00.ex00_local(finished(recipe, RIGHT))


def test_another_run_than_that_of_the_exercise_is_named(finished):
    hello = shell.recipe("hello", "srun bash -c 'echo …'", nodes=2)
    said = hint_of(lesson00.ex00_local, finished(hello, "task 3 runs on node2\n"))
    assert "This is the run 'hello'; the recipe of the exercise is called 'local'." in said


def test_a_loop_in_one_task_of_each_node_is_seen(finished):
    loop = local(command="srun bash -c 'for n in 0 1 2; do echo local $n; done'", exclusive="")
    said = hint_of(lesson00.ex00_local, finished(loop, RIGHT))
    assert "srun started 1 on each. A loop prints as many lines" in said


def test_three_tasks_on_each_node_pass(finished, capsys):
    lesson00.ex00_local(finished(local(), RIGHT))
    assert "✓ by 3 tasks on each node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("nodes", "log", "exit_code", "words"),
    [
        (1, "local 0\nlocal 1\nlocal 2\n", 0, "It asked for 1"),
        (2, "task 3\ntask 4\n", 0, "Is the echo after srun?"),
        (2, "0\n1\n2\n" * 2, 0, "without the word `local`"),
        (2, "local 0\nlocal 1\n" * 2, 0, "The log has 4"),
        (2, "".join(f"local {n}\n" for n in range(6)), 0, "count over the whole job"),
        (2, "local 0\nlocal 1\n" * 3, 0, "that is the number of the node"),
        (2, "local 1\nlocal 2\nlocal 3\n" * 2, 0, "you count from 1"),
        (2, "local $SLURM_LOCALID\n" * 6, 0, "the name, not the value"),
        (2, "local\n" * 6, 0, "a variable that does not exist is empty"),
        (2, "local 6\n" * 6, 0, "that is how many tasks there are"),
        (2, "".join(f"local {n}\n" for n in range(4711, 4717)), 0, "numbers of processes"),
        (2, "local 2\n" * 6, 0, "Which variable counts the tasks within the node?"),
        (2, NOT_FOUND, 127, "A command was not found"),
        (2, "local 0\n", None, "Wait for it"),
        (2, "local 0 on node1\nlocal 1 on node1\nlocal 2 on node1\n" * 2, 0, "After the number"),
    ],
)
def test_a_wrong_run_gets_the_hint_for_its_mistake(finished, nodes, log, exit_code, words):
    assert words in hint_of(lesson00.ex00_local, finished(local(nodes), log, exit_code))


@pytest.mark.parametrize(
    ("command", "log", "words"),
    [
        ('srun bash -c "echo local $SLURM_LOCALID"', "local 0\n" * 6, "In single quotes each task"),
        ("echo local $SLURM_LOCALID", "local 0\n", "there is no srun in the command"),
        ("srun --ntasks=3 bash …", "local 0\nlocal 1\nlocal 2\n", "of srun counts over all nodes"),
        ("echo local 0; echo local 1; …", RIGHT, "The numbers stand in the command"),
    ],
)
def test_a_command_that_no_task_runs_is_told_so(finished, command, log, words):
    assert words in hint_of(lesson00.ex00_local, finished(local(command=command), log))


def test_a_gap_that_is_left_and_a_recipe_that_was_not_submitted_are_told_apart(finished):
    gap = shell.recipe("local", "srun hostname", nodes=..., directives={"ntasks-per-node": ...})
    assert "Still to fill in: nodes" in hint_of(lesson00.ex00_local, gap)
    assert "nothing has run yet" in hint_of(lesson00.ex00_local, local())


@pytest.fixture
def sleepers(finished):
    """Three jobs that held four devices each, and how many seconds sacct says that they did."""

    def make(*elapsed_s, nodes=2):
        runs = []
        for number, each_s in enumerate(elapsed_s, 1):
            recipe = shell.recipe(f"sleep{number}", "sleep 3", nodes=nodes, gpus_per_node=2)
            run = finished(recipe, "")
            run._record = replace(run._record, final={**run._record.final, "elapsed_s": each_s})
            runs.append(run)
        return runs

    return make


@pytest.mark.parametrize(
    ("elapsed_s", "answer"),
    [
        ((3.0, 3.0, 3.0), 36),
        ((3.0, 3.0, 3.0), 44),
        ((3.0, 4.0, 5.0), 48),
        ((3.0, 4.0, 5.0), 44),
        ((3.0, 3.0, 3.0), 3600 * 3 * 0.0033),
        ((3.0, 3.0, 3.0), 40),
        ((None,) * 3, 36),
    ],
)
def test_the_cost_of_the_sleeping_jobs_passes(sleepers, capsys, elapsed_s, answer):
    lesson00.ex00_device_seconds(answer, sleepers(*elapsed_s))
    assert "✓ it is what the three jobs held" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (..., "Replace the ..."),
        ("36 MB", "which is a unit of something else"),
        (10, "how long the jobs ran. Each held 4 devices"),
        (20, "one node, or one device on each"),
        (12, "That is one job. There were 3"),
        (40 / 3600, "these are device-hours; device-seconds are asked for"),
        (12, "These are the devices of all jobs"),
        (3 * 4 * 5 * 60, "until their time limit"),
        (24, "One job is missing"),
        (28, "One job is missing"),
        (35, "You answered 35 device-seconds. For each job"),
        (52, "You answered 52 device-seconds. For each job"),
        (38, "You answered 38 device-seconds. For each job"),
        (42, "You answered 42 device-seconds. For each job"),
        (6, "You answered 6 device-seconds. For each job"),
        (120, "You are off by 3"),
    ],
)
def test_a_wrong_cost_gets_the_hint_for_its_mistake(sleepers, answer, words):
    assert words in hint_of(lesson00.ex00_device_seconds, answer, sleepers(3.0, 3.0, 4.0))


def test_a_cost_of_jobs_that_were_cleaned_away_cannot_be_checked(sleepers):
    runs = sleepers(3.0, 3.0, 3.0)
    shutil.rmtree(runs[1].folder)
    assert "This run was deleted" in hint_of(lesson00.ex00_device_seconds, 36, runs)


def test_device_seconds_hold_against_all_kinds_of_answers(sleepers):
    runs = sleepers(3.0, 4.0, 5.0)
    hold(
        "device_seconds",
        lambda answer: lesson00.ex00_device_seconds(answer, runs),
        48,
        [12, 24, 36, 32, 28, 20, 16, 48 / 3600, 48 / 60, 48 * 3, 48 * 4],
        accepted=[44, 52],
    )
