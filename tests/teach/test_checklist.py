"""A check prints the requirements that are met, stops at the first that is not, and keeps the
progress."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.shipped import SHIPPED
from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist, NotYet
from course_lib.teach.progress import FILE, Standing, exercises, standings, table
from course_lib.teach.solution import solution
from course_lib.teach.solution import test as read


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


def told(workspace, judge):
    with pytest.raises(NotYet) as caught, Checklist("02.2", workspace) as check:
        judge(check)
    return str(caught.value)


def test_a_hint_says_where_then_what_kind_then_what_to_do_and_then_opens_the_solution(
    workspace, monkeypatch
):
    monkeypatch.delenv("COURSE_HINTS")

    def wrong(check):
        check.refuse("the sum", "It is a mean. Do not divide.", "rank 1: y: ")

    nothing = told(workspace, lambda check: check.answered(..., "y"))
    assert "Replace the ... in the cell above (y), run the cell" in nothing
    assert "Try" not in nothing
    tries = [told(workspace, wrong) for _ in range(4)]
    shown = [text.splitlines()[2:] for text in tries]
    assert [lines[0] for lines in shown] == [
        "  rank 1: y",
        "  rank 1: y: It is a mean.",
        *["  rank 1: y: It is a mean. Do not divide."] * 2,
    ]
    offers = ['check.solution("02.2")' in lines[1] for lines in shown]
    assert offers == [False, False, True, True]


def test_a_wrong_number_gets_the_place_first_and_the_slip_at_the_second_try(workspace, monkeypatch):
    monkeypatch.delenv("COURSE_HINTS")
    wanted = Amount(right=8, unit="bytes", slips=((2, "These are elements."),))
    tries = [
        told(workspace, lambda check: check.amount(2.0, wanted, "bytes", hint="See dtype. Twice."))
        for _ in range(3)
    ]
    assert ["elements" in one for one in tries] == [False, True, True]
    assert ["See dtype." in one for one in tries] == [True, True, True]
    assert ["Twice." in one for one in tries] == [False, False, True]


@pytest.mark.parametrize("exercise", exercises())
def test_each_exercise_has_a_solution_to_show_without_the_guesses(exercise, workspace, capsys):
    solution(exercise)
    file, *answer = capsys.readouterr().out.split("\n\n")
    assert file.startswith(f"# solutions/{exercise.partition('.')[0]}_")
    assert "".join(answer).strip()
    assert "guess_" not in "".join(answer)


def test_each_exercise_with_a_trial_has_a_test_to_read(repository, capsys):
    checks = (repository / "course_lib" / "teach" / "checks").glob("lesson*.py")
    trial = re.compile(r'tried\("(\d\d[a-z]?\.\d+)"')
    tried = [name for file in checks for name in trial.findall(file.read_text())]
    assert len(tried) > 15
    for exercise in tried:
        read(exercise)
        printed = capsys.readouterr().out
        assert "\ndef test" in printed, exercise
        assert re.search(rf'"""Tests? .*{re.escape(exercise)}', printed), exercise


def test_a_class_sees_the_solutions_that_its_instructor_opened(workspace, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_CLASS", str(workspace / "class"))
    monkeypatch.setenv("COURSE_WORKSPACE", str(workspace))
    solution("02.2")
    assert "Ask your instructor to open" in capsys.readouterr().out
    opened = workspace / "my_notebooks" / "solutions"
    opened.mkdir(parents=True)
    (opened / "02_many_processes.ipynb").write_bytes(
        (SHIPPED / "solutions" / "02_many_processes.ipynb").read_bytes()
    )
    solution("02.2")
    assert "def ring_all_reduce" in capsys.readouterr().out


def test_a_check_offers_only_a_solution_that_its_learner_has(workspace, monkeypatch):
    monkeypatch.delenv("COURSE_HINTS")
    monkeypatch.setenv("COURSE_CLASS", str(workspace / "class"))
    monkeypatch.setenv("COURSE_WORKSPACE", str(workspace))
    tries = [told(workspace, lambda check: check.refuse("the sum", "")) for _ in range(3)]
    assert ["Ask your instructor" in one for one in tries] == [False, False, True]
    assert "check.solution" not in "".join(tries)


def test_a_mistake_that_was_not_made_is_not_spoken_of(workspace, capsys):
    with Checklist("00.1", workspace) as check:
        check.unless(False, "it counts halvings", hint="never shown")
        assert check.number(7, "your answer") == 7
        check.succeeded(FinishedRun("COMPLETED"), "the run")
    printed = capsys.readouterr().out
    assert printed == "exercise 00.1\n✓ the run has ended\n✓ the run ended well\n"
    named = pytest.raises(NotYet, match="✗ it counts halvings\n  Look")
    with named, Checklist("00.1", workspace) as check:
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
        ("dp4", "It is 'dp4' now; submit the recipe"),
        (Recipe(name="dp4", commands="hostname"), "now; submit the recipe"),
        (FinishedRun("RUNNING", ended=False), "It is RUNNING now"),
        (FinishedRun("FAILED"), "rank 1 ran out of memory"),
        (FinishedRun("COMPLETED", deleted=True), "This run was deleted.*Run the cell above"),
    ],
)
def test_a_run_that_is_none_or_not_over_or_failed_or_deleted_is_told_apart(workspace, run, words):
    with pytest.raises(NotYet, match=words), Checklist("00.1", workspace) as check:
        check.succeeded(run)


@pytest.mark.parametrize("answer", ["7 or 8", None, True, [6], (6,), "[6]"])
def test_an_answer_must_be_a_number_if_the_exercise_asks_for_one(workspace, answer):
    with pytest.raises(NotYet, match="is a number"), Checklist("00.1", workspace) as check:
        check.number(answer, "your answer")


def test_an_error_in_a_check_is_told_and_not_taken_for_an_unsolved_exercise(workspace):
    raised = pytest.raises(NotYet, match="ZeroDivisionError")
    with raised as caught, Checklist("00.1", workspace) as check:
        check.that(True, "x", hint="")
        _ = 1 / 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "✓ x\n✗ the check can read its argument" in str(caught.value)
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
    named = re.compile(r"^(?:def )?ex(\d\d[a-z]?)_\w+(?:\(\w| = tried\()", re.M)
    checks = [name for file in modules for name in named.findall(file.read_text())]
    assert Counter(number.partition(".")[0] for number in exercises()) == Counter(checks)


@pytest.mark.parametrize("answer", [-3, "-3", "-3 workers", 0])
def test_a_count_is_greater_than_nothing(workspace, answer):
    wanted = Amount(right=3, share=EXACT)
    with pytest.raises(NotYet, match="✗ so many"), Checklist("00.1", workspace) as check:
        check.amount(check.number(answer, "workers"), wanted, "so many", hint="Count again.")
