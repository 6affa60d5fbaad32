"""Nothing is shared without an agreement; what is shared, instructors alone can read."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from course_lib import share_progress
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import Workspace
from course_lib.mistakes.errors import ArgumentError
from course_lib.teach.classroom import folder, pulse, sharing, snapshot
from course_lib.teach.classroom.pulse import Pulse

from .learners import INSTRUCTORS


def refresh(who):
    return who.does(lambda: sharing.refresh(Workspace(who.workspace)))


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
    ada.shares()
    found = shared(classroom, ada)
    assert set(found) == {
        "format", "lesson", "active_unix_s", "stuck_on", "stuck_unix_s", "exercises",
    }  # fmt: skip
    assert found["lesson"] == "00"
    assert found["exercises"] == {
        "00.1": {"is_solved": False, "tries": 3, "hint": "the run used 2 nodes", "times_met": 2}
    }
    assert str(ada.workspace) not in json.dumps(found)


def test_an_agreement_that_is_withdrawn_removes_the_file(classroom, ada):
    ada.shares()
    assert ada.does(lambda: share_progress(False)) == ""
    assert files(classroom) == []
    assert refresh(ada) == ""
    assert files(classroom) == []


def test_an_agreement_holds_for_the_readers_that_it_was_given_for(classroom, ada):
    ada.shares()
    (classroom / f"{ada.uid}.json").unlink()
    os.chown(classroom, 0, INSTRUCTORS - 1)
    folder.make(classroom, "")
    assert refresh(ada) == ""
    assert files(classroom) == [], "others read there now, so ada is asked again"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o1773, "no setgid bit"),
        (0o2773, "no sticky bit"),
        (0o3777, "can be listed by everybody"),
    ],
)
def test_a_folder_that_would_show_it_to_others_is_refused(classroom, ada, mode, why):
    classroom.chmod(mode)
    said = ada.does(lambda: share_progress(True))
    assert why in said
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


@pytest.mark.parametrize("kind", ["file", "folder", "link", "pipe"])
def test_who_takes_the_place_of_another_keeps_nobody_from_sharing(classroom, ada, eve, kind):
    place = classroom / f"{ada.uid}.json"
    take = {
        "file": lambda: place.write_text("{}"),
        "folder": place.mkdir,
        "link": lambda: place.symlink_to(ada.workspace / "precious"),
        "pipe": lambda: os.mkfifo(place),
    }
    assert eve.does(take[kind]) == ""
    (ada.workspace / "precious").write_text("precious")
    ada.shares()
    [mine] = [one for one in classroom.iterdir() if one.lstat().st_uid == ada.uid]
    assert mine.name.startswith(f"{ada.uid}.")
    ada.shares()
    assert len(files(classroom)) == 2, "always under the same second name"
    assert (ada.workspace / "precious").read_text() == "precious"
    assert ada.does(lambda: share_progress(False)) == ""
    assert files(classroom) == [place.name]


def test_a_full_disk_is_said_once_and_stops_no_cell(classroom, ada, monkeypatch, capsys):
    ada.shares()
    monkeypatch.setattr(sharing, "refresh", lambda *_: (_ for _ in ()).throw(LabError("full")))
    heart = Pulse()
    heart.after_cell()
    heart.written_s = -1e9
    heart.after_cell()
    assert capsys.readouterr().out == "(progress could not be shared: full)\n"


def test_a_cell_writes_anew_after_a_check_and_else_not_too_often(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setenv("COURSE_CLASS", str(tmp_path))
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/x/notebooks/07b_pipelines_and_both.ipynb")
    monkeypatch.setattr(sharing, "refresh", lambda place, lesson, now: calls.append(lesson))
    heart = Pulse()
    heart.after_cell()
    heart.after_cell()
    assert calls == ["07b"]
    (tmp_path / ".course").mkdir()
    (tmp_path / ".course" / "progress.jsonl").write_text("{}\n")
    heart.after_cell()
    assert calls == ["07b", "07b"]


def test_a_kernel_tells_the_lesson_of_its_notebook_once_there_is_an_agreement(
    classroom, tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", "my_notebooks/05_profiling.ipynb")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cell = [sys.executable, "-m", "IPython", "-c", "import course_lib"]
    subprocess.run(cell, check=True, capture_output=True)
    assert files(classroom) == []
    share_progress(True)
    subprocess.run(cell, check=True, capture_output=True)
    assert json.loads((classroom / "0.json").read_text())["lesson"] == "05"


@pytest.mark.parametrize("name", ["", "notes.ipynb", "07b_x.ipynb/../evil", "\0"])
def test_a_notebook_of_another_name_is_no_lesson(name, monkeypatch):
    monkeypatch.setattr(os, "environ", {"JPY_SESSION_NAME": name})
    assert pulse.lesson_here() == ""


def test_without_a_class_a_learner_is_told_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("COURSE_CLASS", raising=False)
    share_progress(True)
    share_progress(False)
    assert capsys.readouterr().out == (
        "there is no class here (COURSE_CLASS names no folder): nothing is shared\n" * 2
    )
    with pytest.raises(ArgumentError, match="agree"):
        share_progress("yes")


def test_of_many_exercises_with_long_hints_the_file_stays_small():
    one = {"tries": 3, "hint": "é" * 80, "times_met": 2}
    many = {
        f"{n:02}.{k}": snapshot.Exercise(is_solved=k > 1, **one)
        for n in range(30)
        for k in range(1, 5)
    }
    encoded = snapshot.Snapshot(exercises=many).encoded()
    assert len(encoded) <= snapshot.LARGEST_BYTES
    kept = json.loads(encoded)["exercises"]
    assert len(kept) == 120
    assert kept["00.1"]["hint"]
    assert not kept["00.2"]["hint"]


def test_stuck_is_who_has_missed_the_same_exercise_since(tmp_path):
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
