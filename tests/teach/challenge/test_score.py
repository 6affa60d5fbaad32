"""The score of a run is computed from its weights and its time, and a broken rule is named."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job.unfinished import Unfinished
from course_lib.teach.challenge import score, text

from .conftest import SECONDS, log_of


def test_an_honest_run_counts_and_says_all_figures(task, finish, judged):
    found = task.score(finish(seconds=25))
    assert found.broken_rules == ()
    assert found.reached
    assert found.tokens == 40 * 16 * 64
    assert found.device_minutes == pytest.approx(SECONDS / 60)
    assert found.off_by == pytest.approx(1.25)
    assert found.result == pytest.approx(25)
    assert "held-out loss   4.520 ± 0.020  (target: 4.7; reached)" in repr(found)
    assert "20 s  (predicted: 25 s, off by a factor of 1.25)" in repr(found)


def test_too_short_a_prediction_costs_as_much_as_too_long_a_prediction(task, finish, judged):
    assert task.score(finish(seconds=16)).off_by == pytest.approx(1.25)


def test_a_run_that_misses_the_target_counts_and_has_no_score(task, finish, judged):
    judged["judgement"] = replace(judged["judgement"], judged=4.71)
    found = task.score(finish(log=log_of(4.7)))
    assert found.counts
    assert not found.reached
    assert "NOT reached" in repr(found)
    assert "score           none" in repr(found)


def changed(**changes):
    return lambda recipe: replace(recipe, **changes)


def more_arguments(*words):
    return lambda recipe: replace(recipe, arguments=(*recipe.arguments, *words))


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (more_arguments("--data-path", "elsewhere"), "trained on a different text"),
        (more_arguments("--split", "50,50,0"), "trained on a different text"),
        (more_arguments("--load", "elsewhere"), "did not start from random weights"),
        (changed(program="train_letters.py"), "did not run pretrain_gpt.py"),
        (changed(files=("work/mine.py",)), "did not run pretrain_gpt.py"),
        (changed(before="python other.py"), "did not run pretrain_gpt.py"),
    ],
)
def test_a_recipe_that_breaks_a_rule_is_told_which(task, finish, judged, of, words):
    found = task.score(finish(of=of))
    assert words in repr(found)
    assert not found.counts


@pytest.mark.parametrize("name", ["COURSE_DEVICE_PACE", "OMP_NUM_THREADS", "PYTHONPATH"])
def test_an_environment_of_ones_own_is_named(task, finish, judged, name):
    def with_more(recipe):
        return replace(recipe, environment={**recipe.environment, name: "1"})

    [said] = task.score(finish(of=with_more)).broken_rules
    assert f"its environment ({name}) may change how fast" in said


def test_what_was_not_made_for_the_challenge_is_refused(task, finish, judged):
    def without(recipe):
        return replace(recipe, environment={})

    with pytest.raises(LabError, match="has no predicted time; make its recipe with task"):
        task.score(finish(of=without))
    with pytest.raises(LabError, match=r"which lab.submit\(…\) returns"):
        task.score("mine")


def test_a_gap_goes_through_to_the_check(task, capsys):
    missing = task.recipe("mine", ..., seconds=...)
    assert isinstance(missing, Unfinished)
    assert missing.missing == ("model", "seconds")
    assert task.score(missing) is missing
    task.enter(missing, name="Ada")
    assert "nothing to enter yet" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [0, -3, math.nan, math.inf, "twenty", None, 1e12])
def test_a_time_that_is_none_is_refused(task, seconds):
    with pytest.raises(ValueError, match=r"seconds|task.recipe"):
        task.recipe("mine", task.model(2, 64), seconds=seconds)


@pytest.mark.parametrize("flag", [
    "data_path", "split", "load", "mock_data", "seq_length", "save", "environment",
])  # fmt: skip
def test_what_the_task_decides_is_no_choice(task, flag):
    with pytest.raises(ValueError, match="the task fixes this"):
        task.recipe("mine", task.model(2, 64), seconds=20, **{flag: 1})


def test_a_model_outside_the_family_is_refused(task):
    with pytest.raises(ValueError, match="make the model with task"):
        task.recipe("mine", task.model(2, 64).but(sequence=128), seconds=20)


@pytest.mark.parametrize("said", ["", "Traceback", "{}", "[]", '{"iteration": 1}', "1"])
def test_a_judge_that_says_nothing_readable_is_an_error_in_words(task, finish, monkeypatch, said):
    monkeypatch.setattr(text, "start", lambda *words: said)
    with pytest.raises(LabError, match="the output of the evaluation cannot be read"):
        task.score(finish())


def test_the_judge_is_alone_and_on_the_processor():
    here = {"PATH": "/bin", "RANK": "1", "SLURM_PROCID": "2", "COURSE_RUN_DIR": "x", "HOME": "/h"}
    wanted = {"PATH": "/bin", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert text.environment(here) == wanted


def test_a_recorded_run_has_the_score_of_its_judgement_and_stays_off_the_board(
    task, judged, finish, monkeypatch, capsys
):
    run = finish()
    given = task.score(run)
    monkeypatch.setattr(score, "judge", None)
    monkeypatch.setattr(type(run), "origin", "recorded on 1 May 2026 on a node")
    found = task.score(run)
    same = ("loss", "error", "tokens", "seconds", "foreseen", "device_minutes", "result", "reached")
    assert [getattr(found, name) for name in same] == [getattr(given, name) for name in same]
    assert "recorded on 1 May 2026 on a node, and judged there" in repr(found)
    task.enter(found, name="not mine")
    assert "cannot be entered on the board" in capsys.readouterr().out
    assert not task.board().entries


def test_a_recording_says_if_its_run_has_no_score(task, judged, finish, monkeypatch):
    run = finish()
    monkeypatch.setattr(type(run), "origin", "recorded on 1 May 2026 on a node")
    with pytest.raises(LabError, match="without its weights and before it was scored"):
        task.score(run)
    run.paths.verdict.mkdir()
    (run.paths.verdict / score.JUDGEMENT_FILE).write_text('{"samples": "<b>"}')
    with pytest.raises(LabError, match="before it was scored"):
        task.score(run)
