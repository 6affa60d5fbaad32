"""The owner of a file is the learner, and other files in the folder have no effect."""

from __future__ import annotations

import json
import os
import time

import pytest

from course_lib.classroom import snapshot, tables
from course_lib.classroom.snapshot import read
from course_lib.lab.errors import LabError

HINT = "the run used 2 nodes"
GOOD = {
    "format": "course-class-2", "lesson": "00", "active_unix_s": 1.7e9, "stuck_on": "",
    "stuck_unix_s": 0, "exercises": {"00.1": {"is_solved": True, "tries": 3, "hint": HINT}},
}  # fmt: skip


def lay(place, who, content, name=""):
    path = place / (name or f"{who.uid}.json")
    text = content if isinstance(content, str | bytes) else json.dumps(content)

    def write():
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    assert who.does(write) == ""
    return path


def accounts(place):
    return [one.uid for one in read(place).members]


def test_members_are_the_learners_that_share(classroom, ada, eve):
    ada.tries("00.1", 20, HINT)
    ada.shares()
    eve.tries("00.1", 5)
    eve.shares()
    found = read(classroom)
    assert [(one.uid, one.account) for one in found.members] == [
        (ada.uid, f"uid {ada.uid}"),
        (eve.uid, f"uid {eve.uid}"),
    ]
    assert found.members[0].shared.stuck_on == "00.1"
    assert found.members[1].shared.exercises["00.1"].is_solved
    assert found.passed_over == 0


def test_a_file_with_the_number_of_another_is_not_the_other_s(classroom, ada, eve):
    lay(classroom, eve, GOOD, f"{ada.uid}.json")
    found = read(classroom)
    assert found.members == ()
    assert found.passed_over == 1


def test_a_link_to_what_only_instructors_may_read_shows_nothing_of_it(classroom, eve, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(GOOD))
    path = classroom / f"{eve.uid}.json"
    assert eve.does(lambda: path.symlink_to(secret)) == ""
    assert accounts(classroom) == []


@pytest.mark.parametrize(
    "content",
    [
        "", "{}", b"\xff\xfe\0", "[" * 100_000, json.dumps(GOOD) + " " * 300_000,
        {**GOOD, "format": "course-class-1"}, {**GOOD, "lesson": "<script>"},
        {**GOOD, "exercises": {"00.1": {"tries": -5}}}, {**GOOD, "active_unix_s": -1e300},
        {**GOOD, "guesses": {"no lesson": {"guess": 1}}}, {**GOOD, "tries": [{"unix_s": 1e300}]},
        {**GOOD, "guesses": {"03: x": {"guess": None}}}, {**GOOD, "guesses": {"03: x": {}}},
    ],
)  # fmt: skip
def test_what_is_no_progress_is_passed_over_and_counted(classroom, ada, eve, content):
    ada.shares()
    lay(classroom, eve, content)
    found = read(classroom)
    assert [one.uid for one in found.members] == [ada.uid]
    assert found.passed_over == 1
    assert any("1 files in the class folder" in x for x in tables.words_below(found, classroom))


@pytest.mark.parametrize("kind", ["pipe", "folder", "sparse", "closed"])
def test_pipes_folders_and_huge_files_are_passed_over_at_once(classroom, eve, kind):
    path = classroom / f"{eve.uid}.json"

    def huge():
        path.touch()
        os.truncate(path, 1 << 40)

    make = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "sparse": huge,
        "closed": lambda: lay(classroom, eve, GOOD).chmod(0),
    }
    eve.does(make[kind])
    started = time.monotonic()
    found = read(classroom)
    assert time.monotonic() - started < 5
    assert found.members == () or kind == "closed"  # root reads that one all the same


def test_exercises_that_the_course_does_not_have_are_left_out(classroom, eve):
    one = {"is_solved": False, "tries": 0, "hint": "x" * 5_000}
    lay(classroom, eve, {**GOOD, "stuck_on": "99.9", "exercises": {"00.1": one, "<img>": one}})
    [member] = read(classroom).members
    assert member.shared.stuck_on == ""
    assert list(member.shared.exercises) == ["00.1"]
    assert len(member.shared.exercises["00.1"].hint) == 120


def test_guesses_and_tries_of_a_stranger_are_short_printable_and_few(classroom, eve):
    evil = "\x1b[2J" + "x" * 5_000
    made = {f"03: {n}\x1b": {"guess": evil, "measured": 1e300, "unit": evil} for n in range(10)}
    tries = [{"exercise": "00.1", "unix_s": 1e12, "hint": evil}, {"exercise": "<img>"}] * 15
    lay(classroom, eve, {**GOOD, "guesses": made, "tries": tries, "details": True})
    [member] = read(classroom).members
    guess = member.shared.guesses["03: 3?"]
    assert guess.guess == guess.unit == "?[2J" + "x" * 116
    assert {one.exercise for one in member.shared.tries} == {"00.1"}
    [row, *_others] = tables.try_rows(member)
    assert row["what is missing"].startswith("?[2Jxxx")
    [bar, _measured] = tables.histograms(read(classroom), "03")["3?"]
    assert bar["learners"] in (0, 1)


def test_no_hint_moves_the_cursor_of_the_instructor():
    assert snapshot.one_line("\x1b[2Ja\nb\u202e\x9b31m 한국어 ✓") == "?[2Ja?b??31m 한국어 ✓"


def test_a_learner_who_asks_is_told_who_may_look(classroom, ada):
    said = ada.does(lambda: read(classroom))
    assert "LabError: only instructors can look into" in said


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(LabError, match="No such file"):
        read(tmp_path / "gone")
