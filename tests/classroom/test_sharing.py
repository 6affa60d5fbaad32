"""Progress is shared only with an agreement, and only instructors can read it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib import help_me, share_progress
from course_lib.classroom import folder, sharing, snapshot
from course_lib.lab.jupyter.kernels import NotebookKernels
from course_lib.mistakes.errors import ArgumentError

from .learners import INSTRUCTORS


def refresh(who):
    return who.does(sharing.after_cell)


def files(place):
    return sorted(path.name for path in place.iterdir())


def shared(place, who):
    return json.loads((place / f"{who.uid}.json").read_text())


def test_without_an_agreement_nothing_is_written(classroom, ada):
    ada.tries("00.1", 3)
    assert refresh(ada) == ""
    assert files(classroom) == []


def test_an_agreement_is_kept_and_the_file_is_for_instructors_alone(classroom, ada):
    ada.shares()
    ada.tries("00.1", 3)
    assert refresh(ada) == ""
    there = (classroom / f"{ada.uid}.json").stat()
    assert (there.st_uid, there.st_gid) == (ada.uid, INSTRUCTORS)
    assert stat.S_IMODE(there.st_mode) == 0o640
    assert shared(classroom, ada)["exercises"]["00.1"]["is_solved"] is True


def test_it_tells_lesson_exercises_tries_hints_times_and_nothing_else(classroom, ada):
    ada.tries("00.1", 9, "the run used 2 nodes")
    ada.tries("00.1", 8, "the run used 2 nodes")
    ada.tries("00.1", 7, "it is over")
    ada.tries("00.2", 6, "the hours")
    ada.tries("00.2", 5)
    ada.tries("00.2", 4)
    ada.tries("00.2", 3, "the hours")
    ada.guesses("04: a time", 3, 4.5, "ms")
    ada.guesses("no number of a lesson", 3, 4.5)
    ada.shares()
    found = shared(classroom, ada)
    assert set(found) == {
        "format", "lesson", "active_unix_s", "stuck_on", "stuck_unix_s", "help_unix_s", "exercises",
        "guesses", "details", "tries",
    }  # fmt: skip
    assert found["guesses"] == {"04: a time": {"guess": 3.0, "measured": 4.5, "unit": "ms"}}
    assert (found["details"], found["tries"]) == (False, [])
    assert found["lesson"] == "04"
    assert found["exercises"] == {
        "00.1": {"is_solved": False, "tries": 3, "hint": "it is over"},
        "00.2": {"is_solved": True, "tries": 2, "hint": "the hours"},
    }
    assert str(ada.workspace) not in json.dumps(found)


def test_learners_read_in_sentences_what_instructors_see_of_them(classroom, ada, capfd):
    ada.tries("00.1", 9, "the run used 2 nodes")
    ada.tries("00.2", 8)
    ada.guesses("00: a time", 3, 4.5, "ms")
    ada.shares()
    assert capfd.readouterr().out.partition("what they see:\n")[2].splitlines() == [
        "  lesson 00, when you last worked, and if you ask for help",
        "  exercise 00.1: not solved, tries: 1; last hint: the run used 2 nodes",
        "  exercise 00.2: solved, tries: 1",
        "  guess, without your name: 00: a time: 3 ms",
    ]
    assert ada.does(lambda: share_progress(True, details=True)) == ""
    assert capfd.readouterr().out.splitlines()[-2:] == [
        "  guess, with your name: 00: a time: 3 ms",
        "  the exercise, the time and the hint of each try",
    ]


def test_an_agreement_that_is_withdrawn_removes_the_file(classroom, ada):
    ada.shares()
    assert ada.does(lambda: share_progress(False)) == ""
    assert files(classroom) == []
    assert refresh(ada) == ""
    assert files(classroom) == []


def test_each_try_is_shared_by_a_second_agreement_alone(classroom, ada):
    ada.tries("00.1", 9, "the run used 2 nodes")
    ada.tries("00.1", 8)
    assert ada.does(lambda: share_progress(True, details=True)) == ""
    found = shared(classroom, ada)
    assert found["details"] is True
    assert [(one["exercise"], one["hint"]) for one in found["tries"]] == [
        ("00.1", "the run used 2 nodes"),
        ("00.1", ""),
    ]
    ada.shares()
    assert shared(classroom, ada)["tries"] == []


def test_a_class_that_has_agreed_shares_until_a_learner_says_no(classroom, ada, monkeypatch, capfd):
    monkeypatch.setenv("COURSE_CLASS_AGREED", "yes")
    sharing._say_once.cache_clear()

    def twice():
        sharing.after_cell()
        sharing.after_cell()

    assert ada.does(twice) == ""
    assert capfd.readouterr().out.count("share_progress(False) stops it") == 1, "once per kernel"
    found = shared(classroom, ada)
    assert (found["details"], found["tries"]) == (False, [])
    assert ada.does(share_progress) == ""
    assert "your class has agreed" in capfd.readouterr().out
    assert ada.does(lambda: share_progress(False)) == ""
    assert "your progress is not shared" in capfd.readouterr().out
    assert refresh(ada) == ""
    assert files(classroom) == []
    ada.shares()
    assert "your class" not in capfd.readouterr().out, "the own agreement counts now"


def test_an_agreement_to_an_older_form_of_the_file_has_ended(classroom, ada):
    ada.shares()
    note = ada.workspace / ".course" / "share_progress.json"
    note.write_text(note.read_text().replace(snapshot.FORMAT, "course-class-1"))
    (classroom / f"{ada.uid}.json").unlink()
    assert refresh(ada) == ""
    assert files(classroom) == []


def test_a_flag_is_up_until_it_is_lowered_or_an_exercise_is_solved(classroom, ada, capfd):
    ada.shares()
    ada.tries("00.1", 2, "the run used 2 nodes")
    capfd.readouterr()
    assert ada.does(help_me) == ""
    assert "can see that you need help" in capfd.readouterr().out
    found = shared(classroom, ada)
    assert time.time() - found["help_unix_s"] < 60
    assert (found["lesson"], found["stuck_on"]) == ("00", "00.1")
    assert found["exercises"]["00.1"]["hint"] == "the run used 2 nodes"
    assert ada.does(lambda: help_me(False)) == ""
    assert "no more help" in capfd.readouterr().out
    assert shared(classroom, ada)["help_unix_s"] == 0
    assert ada.does(help_me) == ""
    ada.tries("00.1", -1)
    assert refresh(ada) == ""
    assert shared(classroom, ada)["help_unix_s"] == 0


def test_the_flag_of_a_learner_that_shares_nothing_is_hidden(classroom, ada, capfd):
    assert ada.does(help_me) == ""
    said = capfd.readouterr().out
    assert said.startswith(
        "instructors cannot see it: your progress is not shared; share_progress(True)"
    )
    assert files(classroom) == []
    ada.shares()
    assert shared(classroom, ada)["help_unix_s"] > 0


def test_an_agreement_holds_for_the_readers_that_it_was_given_for(classroom, ada):
    ada.shares()
    (classroom / f"{ada.uid}.json").unlink()
    os.chown(classroom, 0, INSTRUCTORS - 1)
    folder.make(classroom, "")
    assert refresh(ada) == ""
    assert files(classroom) == [], "others read there now, so ada is asked again"


@pytest.mark.parametrize("mode", [0o1773, 0o2773, 0o3777])
def test_a_folder_that_would_show_it_to_others_is_refused(classroom, ada, mode):
    classroom.chmod(mode)
    said = ada.does(lambda: share_progress(True))
    assert f"it has mode {mode:o} and needs 3773" in said
    assert "course class make" in said
    assert files(classroom) == []


def test_a_group_to_which_learners_belong_is_refused(classroom, ada):
    os.chown(classroom, 0, ada.uid)
    folder.make(classroom, "")
    assert "you belong to the group" in ada.does(lambda: share_progress(True))
    assert files(classroom) == []


def test_a_learner_can_neither_list_nor_read_nor_remove_nor_replace(classroom, ada, eve):
    ada.shares()
    file = classroom / f"{ada.uid}.json"
    before = file.read_bytes()
    for attempt in (
        lambda: list(classroom.iterdir()),
        file.read_bytes,
        file.unlink,
        lambda: file.rename(classroom / "x"),
        lambda: file.write_bytes(b"{}"),
        lambda: (eve.workspace / "x").write_bytes(b"{}") and (eve.workspace / "x").replace(file),
    ):
        assert "PermissionError" in eve.does(attempt)
    assert file.read_bytes() == before


def test_a_file_of_another_in_the_place_is_not_followed(classroom, ada, eve):
    place = classroom / f"{ada.uid}.json"
    (ada.workspace / "precious").write_text("precious")
    assert eve.does(lambda: place.symlink_to(ada.workspace / "precious")) == ""
    assert "of another account" in ada.does(lambda: share_progress(True))
    assert (ada.workspace / "precious").read_text() == "precious"
    assert files(classroom) == [place.name], "nothing unfinished is left"


def test_what_is_wrong_is_said_once_and_stops_no_cell(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_CLASS", "relative")
    sharing.after_cell()
    sharing.after_cell()
    assert capsys.readouterr().out.count("progress could not be shared") == 1


AGREED = ["from course_lib import check, share_progress", "share_progress(True)"]
MISSED = ["check.ex00_device_seconds(1, None)"] * 3


def in_a_notebook(**kernels):
    def run(cells):
        notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
        client = NotebookClient(
            notebook, timeout=120, kernel_name="python3", allow_errors=True, **kernels
        )
        client.execute()

    return run


def in_a_terminal(cells):
    command = [sys.executable, "-m", "IPython", "--simple-prompt"]
    subprocess.run(command, input="\n".join(cells), text=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    "run",
    [in_a_notebook(kernel_manager_class=NotebookKernels), in_a_notebook(), in_a_terminal],
    ids=["the course's kernel", "a plain ipykernel", "a terminal"],
)
def test_the_class_sees_where_a_learner_is_and_how_often_an_exercise_was_missed(
    run, classroom, tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/05_profiling.ipynb")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    run([AGREED[0], *MISSED])
    assert files(classroom) == [], "nothing without an agreement"
    run(AGREED)
    assert json.loads((classroom / "0.json").read_text())["lesson"] == "05"
    run([AGREED[0], *MISSED])
    assert json.loads((classroom / "0.json").read_text())["exercises"]["00.2"]["tries"] == 6


@pytest.mark.parametrize(
    ("name", "lesson"),
    [
        ("notebooks/07_tensor_parallelism.ipynb", "07"),
        ("/home/ada/course/notebooks/07b_pipelines_and_both.ipynb", "07b"),
        ("RTC:my_notebooks/solutions/ko/05_profiling.ipynb", "05"),
        ("notebooks/00_the_lab-Copy1.ipynb", "00"),
        ("notebooks/10_ideas.ipynb", ""),
        ("", ""),
    ],
)
def test_a_lesson_is_told_by_its_name_wherever_it_or_a_copy_of_it_lies(name, lesson, monkeypatch):
    monkeypatch.setattr(os, "environ", {"JPY_SESSION_NAME": name})
    assert sharing.lesson_here() == lesson


def test_without_a_class_a_learner_is_told_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("COURSE_CLASS", raising=False)
    share_progress(True)
    share_progress(False)
    assert capsys.readouterr().out == (
        "nothing is shared, because COURSE_CLASS names no folder of a class\n" * 2
    )
    with pytest.raises(ArgumentError, match="agree"):
        share_progress("yes")


def test_a_learner_is_stuck_after_missing_the_same_exercise(tmp_path):
    def stuck(*tried):
        return snapshot._stuck([{"exercise": e, "passed": p, "time": t} for e, p, t in tried])

    times = [f"2026-01-05T10:{minute:02}:00+0000" for minute in range(5)]
    seconds = [snapshot._time_of({"time": one}) for one in times]
    assert stuck() == ("", 0.0)
    assert stuck(("00.1", False, times[0]), ("00.1", False, times[1])) == ("00.1", seconds[0])
    assert stuck(("00.1", False, times[0]), ("00.2", False, times[1])) == ("00.2", seconds[1])
    assert stuck(("00.1", False, times[0]), ("00.1", True, times[1])) == ("", 0.0)
    again = stuck(("00.1", True, times[0]), ("00.1", False, times[1]))
    assert again == ("", 0.0), "who tries anew what is solved is not stuck"
