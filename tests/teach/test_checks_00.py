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


def test_three_tasks_on_each_node_pass(finished, capsys):
    lesson00.ex00_local(finished(local(), RIGHT))
    assert "✓ by 3 tasks on each node" in capsys.readouterr().out


IN_DOUBLE_QUOTES = local(command='srun bash -c "echo local $SLURM_LOCALID"')
LOOP = local(command="srun bash -c 'for n in 0 1 2; do echo local $n; done'", exclusive="")


@pytest.mark.parametrize(
    ("recipe", "log", "exit_code", "words"),
    [
        (local(1), "local 0\nlocal 1\nlocal 2\n", 0, "✗ nodes of the job: 2\n  It is 1."),
        (local().but(name="hello"), "task 3 runs on node2\n", 0, "It is hello."),
        (local(), "task 3\ntask 4\n", 0, "The log ends like this"),
        (local(), "local 0\nlocal 1\n" * 2, 0, "✗ lines that begin with `local`: 6\n  It is 4."),
        (
            local(),
            "".join(f"local {n}\n" for n in range(6)),
            0,
            "Which variable counts the tasks within",
        ),
        (local(), "local 0\nlocal 1\n" * 3, 0, "Which variable counts the tasks within"),
        (local(), "local\n" * 6, 0, "If a name does not exist, the variable is empty"),
        (local(), "local 2\n" * 6, 0, "Which variable counts the tasks within the node?"),
        (local(), NOT_FOUND, 127, "A command was not found"),
        (local(), "local 0\n", None, "Wait for it"),
        (LOOP, RIGHT, 0, "srun started 1 on each"),
        (IN_DOUBLE_QUOTES, "local 0\n" * 6, 0, "In single quotes, each task"),
        (local(command="echo local $SLURM_LOCALID"), "local 0\n", 0, "Without srun"),
        (local(command="echo local 0; echo local 1; …"), RIGHT, 0, "are written into the command"),
    ],
)
def test_a_wrong_run_gets_the_hint_for_its_mistake(finished, recipe, log, exit_code, words):
    assert words in hint_of(lesson00.ex00_local, finished(recipe, log, exit_code))


def test_a_gap_that_is_left_and_a_recipe_that_was_not_submitted_are_told_apart(finished):
    gap = shell.recipe("local", "srun hostname", nodes=..., directives={"ntasks-per-node": ...})
    assert "Still to fill in: nodes" in hint_of(lesson00.ex00_local, gap)
    assert "submit the recipe" in hint_of(lesson00.ex00_local, local())


@pytest.fixture
def sleepers(finished):
    """Three jobs that held four devices each, and their seconds according to sacct."""

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
    assert "✓ the answer is the device time of the three jobs" in capsys.readouterr().out


def test_a_cost_of_jobs_that_were_cleaned_away_cannot_be_checked(sleepers):
    runs = sleepers(3.0, 3.0, 3.0)
    shutil.rmtree(runs[1].folder)
    assert "This run was deleted" in hint_of(lesson00.ex00_device_seconds, 36, runs)


def test_device_seconds_hold_against_all_kinds_of_answers(sleepers):
    runs = sleepers(3.0, 4.0, 5.0)
    wrong = {
        12: "Each job held 4 devices", 24: "the devices of one node", 48 / 3600: "in device-hours",
        3 * 4 * 5 * 60: "up to the time limit", 48 * 4: "For each job",
        37: "You answered 37 device-seconds. For each job",
        "36 MB": "but the exercise asks for",
    }  # fmt: skip
    hold(
        "device_seconds",
        lambda answer: lesson00.ex00_device_seconds(answer, runs),
        48,
        wrong,
        accepted=[44, 52, "0.8 device-minutes"],
    )
