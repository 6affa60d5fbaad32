"""Lesson 00: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.recipes import shell
from course_lib.teach.checks import lesson00

from .finished_runs import hint_of

RIGHT = "local 0\nlocal 2\nlocal 1\n" * 2
NOT_FOUND = "bash: pyhton: command not found\n"


def local(nodes=2):
    return shell.recipe(
        "local", "srun bash -c 'echo …'", nodes=nodes, directives={"ntasks-per-node": 3}
    )


def test_three_tasks_on_each_node_pass(finished, capsys):
    lesson00.ex00_local(finished(local(), RIGHT))
    assert "✓ 6 tasks printed a line" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("nodes", "log", "exit_code", "words"),
    [
        (1, "local 0\nlocal 1\nlocal 2\n", 0, "It asked for 1"),
        (2, "3\n4\n", 0, "Is the echo behind srun?"),
        (2, "local 0\nlocal 1\n" * 2, 0, "The log has 4"),
        (2, "".join(f"local {n}\n" for n in range(6)), 0, "count over the whole job"),
        (2, NOT_FOUND, 127, "A command was not found"),
        (2, "local 0\n", None, "Wait for it"),
    ],
)
def test_a_wrong_run_gets_the_hint_for_its_mistake(finished, nodes, log, exit_code, words):
    assert words in hint_of(lesson00.ex00_local, finished(local(nodes), log, exit_code))


def test_a_gap_that_is_left_and_a_recipe_that_was_not_submitted_are_told_apart(finished):
    gap = shell.recipe("local", "srun hostname", nodes=..., directives={"ntasks-per-node": ...})
    assert "Still to fill in: nodes" in hint_of(lesson00.ex00_local, gap)
    assert "nothing has run yet" in hint_of(lesson00.ex00_local, local())


def test_the_code_of_a_missing_command_passes(finished, capsys):
    lesson00.ex00_exit_code(127, finished(local(), NOT_FOUND, 127))
    assert "✓ it is the code that the job ended with" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (..., "Replace the ..."),
        ("127:0", "is a number"),
        (0, "0 is success"),
        (1, "You answered 1. Look at typo.exit_code"),
    ],
)
def test_a_wrong_code_gets_the_hint_for_its_mistake(finished, answer, words):
    assert words in hint_of(lesson00.ex00_exit_code, answer, finished(local(), NOT_FOUND, 127))
