"""A check prints what is met, stops at the first that is not, and keeps the progress."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist, NotYet
from course_lib.teach.progress import FILE, Standing, exercises, standings, table


@dataclass(frozen=True)
class FinishedRun:
    state: str
    ended: bool = True
    recipe: object = None
    error: str = "rank 1 ran out of memory"
    deleted: bool = False

    @property
    def ok(self):
        return self.state == "COMPLETED"


@pytest.fixture
def workspace(tmp_path):
    return tmp_path


def test_a_solved_exercise_prints_its_list_and_is_kept(workspace, capsys):
    with Checklist("00.1", workspace) as check:
        check.that(True, "two nodes", hint="never shown")
    assert capsys.readouterr().out == "exercise 00.1\n✓ two nodes\n"
    (standing,) = standings(workspace)
    assert (standing.exercise, standing.is_solved, standing.attempts) == ("00.1", True, 1)


def test_the_first_unmet_requirement_ends_the_list_with_its_hint(workspace):
    with pytest.raises(NotYet) as caught, Checklist("00.1", workspace) as check:
        check.that(True, "two nodes", hint="")
        check.that(False, "four devices", hint="Look at --nproc-per-node.")
        raise RuntimeError("looked on after an unmet requirement")
    assert str(caught.value) == (
        "exercise 00.1\n✓ two nodes\n✗ four devices\n  Look at --nproc-per-node."
    )
    assert standings(workspace)[0].last_unmet == "four devices"


def test_a_mistake_that_was_not_made_is_not_spoken_of(workspace, capsys):
    with Checklist("00.1", workspace) as check:
        check.unless(False, "it counts halvings", hint="never shown")
        assert check.number(7, "your answer") == 7
        check.succeeded(FinishedRun("COMPLETED"), "the run")
    printed = capsys.readouterr().out
    assert printed == "exercise 00.1\n✓ the run is over\n✓ the run ended well\n"
    told = pytest.raises(NotYet, match="✗ it counts halvings\n  Look")
    with told, Checklist("00.1", workspace) as check:
        check.unless(True, "it counts halvings", hint="Look again.")


def test_solved_once_stays_solved_and_no_later_check_is_a_try(workspace):
    for is_met in (False, True, True, False):
        try:
            with Checklist("00.1", workspace) as check:
                check.that(is_met, "x", hint="")
        except NotYet:
            pass
    (standing,) = standings(workspace)
    assert (standing.is_solved, standing.attempts) == (True, 2)
    assert "yes" in table([standing])


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (..., "Replace the ..."),
        ("dp4", "This is str, not a run"),
        (Recipe(name="dp4", commands="hostname"), "which has not run yet. Submit it"),
        (FinishedRun("RUNNING", ended=False), "It is RUNNING now"),
        (FinishedRun("FAILED"), "rank 1 ran out of memory"),
        (FinishedRun("COMPLETED", deleted=True), "This run was deleted.*Run the cell above"),
    ],
)
def test_a_run_that_is_none_or_not_over_or_failed_or_deleted_is_told_apart(workspace, run, words):
    with pytest.raises(NotYet, match=words), Checklist("00.1", workspace) as check:
        check.succeeded(run)


@pytest.mark.parametrize("answer", ["7 or 8", None, True, [6], (6,), "[6]"])
def test_an_answer_must_be_a_number_where_one_is_asked(workspace, answer):
    with pytest.raises(NotYet, match="is a number"), Checklist("00.1", workspace) as check:
        check.number(answer, "your answer")


def test_an_error_in_a_check_is_told_and_not_taken_for_an_unsolved_exercise(workspace):
    told = pytest.raises(NotYet, match="ZeroDivisionError")
    with told as caught, Checklist("00.1", workspace) as check:
        check.that(True, "x", hint="")
        _ = 1 / 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "✓ x\n✗ what was handed in can be read" in str(caught.value)
    assert standings(workspace) == []


def test_progress_survives_garbage_and_keeps_learners_apart(workspace):
    path = workspace / FILE
    path.parent.mkdir()
    path.write_bytes(
        b'{"learner": "ann", "exercise": "00.1", "passed": true}\n\xff{half\n[1]\n'
        b'{"learner": "bob", "exercise": "00.1", "passed": false, "unmet": "x"}\n'
    )
    assert [row.is_solved for row in standings(workspace, "ann")] == [True]
    assert [row.is_solved for row in standings(workspace, "bob")] == [False]


def test_a_workspace_that_cannot_be_written_does_not_stop_a_check(tmp_path, capsys):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with Checklist("00.1", in_the_way) as check:
        check.that(True, "x", hint="")
    assert "could not be saved" in capsys.readouterr().out


def test_progress_ends_with_how_much_of_the_course_is_solved():
    known = exercises()
    assert len(known) >= 20
    assert table([]).endswith(f"] 0 of {len(known)} exercises solved")
    solved = [Standing(name, True, 1, "") for name in known]
    assert table(solved[:1]).endswith(f"] 1 of {len(known)} exercises solved")
    assert "." not in table(solved).splitlines()[-1]
    stranger = Standing("99.9", True, 1, "")
    assert "] 0 of" in table([stranger])


def test_every_check_counts_in_the_total(repository):
    modules = (repository / "course_lib" / "teach" / "checks").glob("lesson*.py")
    # One without an answer only shows the choices.
    named = re.compile(r"^def ex(\d\d[a-z]?)_\w+\(\w", re.M)
    checks = [name for file in modules for name in named.findall(file.read_text())]
    assert Counter(number.partition(".")[0] for number in exercises()) == Counter(checks)


@pytest.mark.parametrize("answer", [-3, "-3", "-3 workers", 0])
def test_a_count_is_greater_than_nothing(workspace, answer):
    wanted = Amount(right=3, share=EXACT)
    with pytest.raises(NotYet, match="✗ so many"), Checklist("00.1", workspace) as check:
        check.amount(check.number(answer, "workers"), wanted, "so many", hint="Count again.")
