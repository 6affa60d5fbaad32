"""Whose progress it is, is told by the system; whatever else lies in the folder harms nobody."""

from __future__ import annotations

import json
import os
import time

import pytest

from course_lib.lab.errors import LabError
from course_lib.teach.classroom import roster, tables
from course_lib.teach.classroom.roster import Reader

HINT = "the run used 2 nodes"
GOOD = {
    "format": "course-class-1", "lesson": "00", "active_unix_s": 1.7e9, "stuck_on": "",
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
    return [one.uid for one in Reader(place).read().members]


def test_members_are_those_who_share_with_what_they_share(classroom, ada, eve):
    ada.tries("00.1", 20, HINT)
    ada.shares()
    eve.tries("00.1", 5)
    eve.shares()
    found = Reader(classroom).read()
    assert [(one.uid, one.account) for one in found.members] == [
        (ada.uid, f"uid {ada.uid}"),
        (eve.uid, f"uid {eve.uid}"),
    ]
    assert found.members[0].shared.stuck_on == "00.1"
    assert found.members[1].shared.exercises["00.1"].is_solved
    assert found.strange == {}
    assert found.uids == [], "the machine has no names for these, so no queue is asked about them"


def test_a_file_with_the_number_of_another_is_not_the_other_s(classroom, ada, eve):
    lay(classroom, eve, GOOD, f"{ada.uid}.json")
    found = Reader(classroom).read()
    assert found.members == ()
    assert found.strange == {f"uid {eve.uid}": 1}


def test_of_several_files_of_an_account_the_newest_counts(classroom, eve):
    old = lay(classroom, eve, {**GOOD, "lesson": "01"})
    os.utime(old, (1, 1))
    lay(classroom, eve, {**GOOD, "lesson": "02"}, f"{eve.uid}.{'ab' * 8}.json")
    [one] = Reader(classroom).read().members
    assert one.shared.lesson == "02"


def test_a_link_to_what_only_instructors_may_read_shows_nothing_of_it(classroom, eve, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(GOOD))
    path = classroom / f"{eve.uid}.json"
    assert eve.does(lambda: path.symlink_to(secret)) == ""
    assert accounts(classroom) == []


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "null", "not json", b"\xff\xfe\0", "[" * 100_000,
        {**GOOD, "format": "course-class-2"}, {**GOOD, "lesson": 7}, {**GOOD, "exercises": []},
        {**GOOD, "exercises": {"00.1": 3}}, json.dumps({**GOOD, "active_unix_s": float("nan")}),
        {**GOOD, "exercises": {"00.1": {"tries": "many"}}},
        json.dumps(GOOD) + " " * 20_000,
    ],
)  # fmt: skip
def test_what_is_no_progress_is_passed_over_and_its_owner_named(classroom, ada, eve, content):
    ada.shares()
    lay(classroom, eve, content)
    found = Reader(classroom).read()
    assert [one.uid for one in found.members] == [ada.uid]
    assert found.strange == {f"uid {eve.uid}": 1}
    assert any(f"1 files of uid {eve.uid}" in line for line in tables.words_below(found))


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
    found = Reader(classroom).read()
    assert time.monotonic() - started < 5
    assert found.members == () or kind == "closed"  # root reads that one all the same


def test_impossible_figures_times_and_lessons_become_possible_ones(classroom, eve):
    far = {"is_solved": False, "tries": -5, "hint": "x" * 5_000, "times_met": 10**400}
    odd = {
        **GOOD, "lesson": "<script>", "active_unix_s": 1e300, "stuck_on": "99.9",
        "stuck_unix_s": -1e300, "exercises": {"00.1": far, "<img src=x>": far},
    }  # fmt: skip
    lay(classroom, eve, odd)
    [one] = Reader(classroom).read().members
    assert one.shared.lesson == ""
    assert one.shared.stuck_on == ""
    assert one.shared.active_unix_s <= time.time()
    assert list(one.shared.exercises) == ["00.1"]
    assert one.shared.exercises["00.1"].tries == 0
    assert len(one.shared.exercises["00.1"].hint) == 80


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("\x1b[2Jgone", "?[2Jgone"),
        ("a\nb\rc\td", "a?b?c?d"),
        ("\u202eevil", "?evil"),
        ("\x9b31m", "?31m"),
        ("한국어 ✓", "한국어 ✓"),
    ],
)
def test_no_hint_moves_the_cursor_of_the_instructor(hint, shown):
    assert roster.one_line(hint) == shown


def test_what_has_not_changed_is_not_read_again(classroom, ada, eve, monkeypatch):
    ada.shares()
    eve.shares()
    reader = Reader(classroom)
    read = []
    real = roster.parsed
    monkeypatch.setattr(roster, "parsed", lambda path, uid: read.append(uid) or real(path, uid))
    reader.read()
    assert read == [ada.uid, eve.uid] or read == [eve.uid, ada.uid]
    reader.read()
    assert len(read) == 2
    eve.tries("00.1", 0)
    eve.shares()
    found = reader.read()
    assert read[2:] == [eve.uid]
    assert len(found.members) == 2


def test_thirty_learners_with_a_hostile_one_among_them(classroom, enrol):
    everyone = [enrol(number) for number in range(30)]
    for number, one in enumerate(everyone[:-1]):
        one.tries("00.1", 15 + number, HINT)
        if number % 2:
            one.tries("00.1", 3)
        one.shares()
    hostile = everyone[-1]

    def attack():
        for one in everyone:
            (classroom / f"{one.uid}.{'00' * 8}.json").write_text(json.dumps(GOOD))
        for number in range(500):
            (classroom / f"<b>{number}<br>\x1b[2J.json").write_text(json.dumps(GOOD))
        (classroom / f"{hostile.uid}.json").symlink_to("/dev/zero")

    assert hostile.does(attack) == ""
    found = Reader(classroom).read()
    assert [one.uid for one in found.members if one.uid != hostile.uid] == [
        one.uid for one in everyone[:-1]
    ]
    assert found.strange == {f"uid {hostile.uid}": 530}
    drawn = tables.text(found, "", time.time())
    assert "\x1b" not in drawn
    assert "<b>" not in drawn


def test_who_lays_thousands_of_files_hides_nobody(classroom, ada, eve, enrol, monkeypatch):
    def flood():
        for number in range(200):
            (classroom / f"{number}.json").write_text("")

    assert eve.does(flood) == ""
    bob = enrol(2)
    ada.shares()
    bob.shares()
    monkeypatch.setattr(roster, "MOST_FILES", 20)
    reader = Reader(classroom, accounts={ada.uid, bob.uid})
    found = reader.read()
    assert {ada.uid, bob.uid} <= {one.uid for one in found.members}
    assert list(found.strange) == [f"uid {eve.uid}"]


def test_a_learner_who_asks_is_told_who_may_look(classroom, ada):
    said = ada.does(lambda: Reader(classroom).read())
    assert "LabError: only instructors can look into" in said


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(LabError, match="No such file"):
        Reader(tmp_path / "gone").read()
