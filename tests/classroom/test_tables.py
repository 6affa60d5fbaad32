"""Tables of the instructor: places of learners, solved exercises, and stuck learners."""

from __future__ import annotations

import csv
import io
import os

from course_lib import share_progress
from course_lib.classroom import folder, tables
from course_lib.classroom.snapshot import (
    Exercise,
    Guess,
    Member,
    Roster,
    Snapshot,
    known_exercises,
)
from course_lib.cli import main

NOW_S = 1_800_000_000.0


def ago(minutes):
    return NOW_S - 60 * minutes


def member(
    name, *, lesson="03", stuck=0.0, seen=0.0, solved=(), hint="a hint", tries=2, help=0.0, **more
):  # fmt: skip
    exercises = {one: Exercise(is_solved=True, tries=1) for one in solved}
    if stuck:
        exercises["03.1"] = Exercise(tries=tries, hint=hint)
    shared = Snapshot(
        lesson=lesson,
        active_unix_s=ago(seen),
        stuck_on="03.1" if stuck else "",
        stuck_unix_s=ago(stuck) if stuck else 0.0,
        help_unix_s=ago(help) if help else 0.0,
        exercises=exercises,
        **more,
    )
    return Member(len(name), name, shared)


CLASS = Roster(
    (
        member("ada", solved=("00.1", "00.2")),
        member("bob", stuck=12),
        member("cyd", stuck=25),
        member("dan", stuck=90, seen=60),
        member("eli", stuck=4),
    )
)


def test_who_is_stuck_stands_above_the_longest_first():
    rows = tables.learner_rows(CLASS, NOW_S)
    assert [row["learner"] for row in rows] == ["cyd", "bob", "ada", "dan", "eli"]
    assert [row["learner"] for row in rows if row["is_marked"]] == ["cyd", "bob"]
    assert rows[0]["stuck"] == "25 min on 03.1"


def test_who_has_gone_away_is_not_called_stuck():
    dan = next(row for row in tables.learner_rows(CLASS, NOW_S) if row["learner"] == "dan")
    assert (dan["stuck"], dan["seen"]) == ("", "60 min ago")


def test_who_asks_for_help_stands_above_all_until_the_learner_has_left():
    asking = member("fay", help=3, stuck=2)
    gone = member("gil", help=90, seen=60)
    rows = tables.learner_rows(Roster((*CLASS.members, gone, asking)), NOW_S)
    assert [row["learner"] for row in rows[:2]] == ["fay", "cyd"]
    assert (rows[0]["asks for help"], rows[0]["lesson"]) == ("for 3 min 03.1", "03")
    assert (rows[0]["last hint"], rows[0]["is_marked"]) == ("a hint", True)
    assert next(row["asks for help"] for row in rows if row["learner"] == "gil") == ""


def guessing(name, guess, measured=None, unit="ms", **more):
    made = Guess(guess=guess, measured=measured, unit=unit)
    return member(name, guesses={"04: a time": made}, **more)


def bars(*members):
    found = tables.histograms(Roster(members), "04")["a time"]
    return [(one["guess"], one["learners"], one["measured"], one["names"]) for one in found]


def test_guesses_are_counted_beside_the_measurement_and_named_by_consent_alone():
    open_ada = guessing("ada", 2.0, 3.5, details=True)
    assert bars(open_ada, guessing("bob", 2.0, 3.7), guessing("cyd", 5.0)) == [
        ("2 ms", 2, "", "ada"),
        ("3.7 ms", 0, "3.7 ms", ""),
        ("5 ms", 1, "", ""),
    ]
    assert tables.lessons_with_guesses(Roster((open_ada,))) == ["04"]


def test_many_different_guesses_are_grouped_by_their_first_figure():
    made = [guessing("ada", float(value), 21.0) for value in range(11, 21)]
    assert bars(*made) == [("10 ms", 4, "", ""), ("20 ms", 6, "21 ms", "")]


def test_choices_are_counted_even_with_a_number_among_them():
    made = [guessing("a", "yes", "no", ""), guessing("b", "no", "no", ""), guessing("c", 1.0, 1.0)]
    assert bars(*made) == [("1", 1, "", ""), ("no", 1, "no", ""), ("yes", 1, "", "")]


def test_solved_are_counted_in_all_and_in_the_lesson():
    ada = tables.learner_rows(Roster((member("ada", lesson="00", solved=("00.1", "03.1")),)), NOW_S)
    assert (ada[0]["solved"], ada[0]["here"]) == (2, "1/2")


def test_exercises_show_what_a_class_fails_at():
    [first, _, third] = tables.exercise_rows(CLASS, NOW_S)
    assert (first["exercise"], first["tried by"], first["solved by"]) == ("00.1", 1, 1)
    assert (third["exercise"], third["tries"], third["stuck now"]) == ("03.1", 8, 2)
    assert third["hint met most"] == "a hint"


def test_the_text_says_how_many_share_and_how_many_are_stuck(tmp_path):
    said = tables.text(CLASS, tmp_path, NOW_S)
    assert said.startswith("learners who share: 5; asking for help: 0; stuck")
    assert "no learner shares progress here yet" in tables.text(Roster(), tmp_path, NOW_S)


def test_a_spreadsheet_takes_no_hint_for_a_formula():
    evil = "=HYPERLINK(A1)"
    there = Roster((member("x", stuck=3, hint=evil), member("y")))
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(there, now_unix_s=NOW_S))))
    assert rows[0]["hint"] == f"'{evil}"
    assert (rows[0]["exercise"], rows[0]["solved"], rows[0]["stuck_minutes"]) == ("03.1", "no", "3")
    assert (rows[1]["learner"], rows[1]["exercise"]) == ("y", "")


def test_grades_count_the_solved_exercises_of_each_tried_lesson():
    there = Roster((member("ada", solved=("00.1", "00.2")), member("bob", stuck=3)))
    most = {n: sum(x.startswith(f"{n}.") for x in known_exercises()) for n in ("00", "03")}
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(there, "grades"))))
    assert [tuple(row.values()) for row in rows] == [
        ("ada", "lesson-00", "2", str(most["00"])),
        ("ada", "lesson-03", "0", str(most["03"])),
        ("bob", "lesson-00", "0", str(most["00"])),
        ("bob", "lesson-03", "0", str(most["03"])),
    ]
    assert list(rows[0]) == ["student_id", "assignment", "score", "max_score"]
    [ada, bob] = csv.DictReader(io.StringIO(tables.as_csv(there, "lms")))
    assert ada == {"username": "ada", "lesson-00": f"{200 / most['00']:.0f}", "lesson-03": "0"}
    assert bob["lesson-00"] == "0"
    assert tables.as_csv(Roster(), "lms") == "username\n"


def test_the_commands_for_instructor_and_learner(classroom, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path / "ws"))
    monkeypatch.setenv("COURSE_SITE", "box")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    share_progress()
    share_progress(True)
    share_progress()
    said = capsys.readouterr().out
    assert said.startswith("your progress is not shared; share_progress(True) would share it with")
    assert said.count("your progress is shared in") == 2
    assert main(["class"]) == 0
    assert "learners who share: 1;" in capsys.readouterr().out
    assert main(["class", "--csv", str(tmp_path / "class.csv")]) == 0
    assert (tmp_path / "class.csv").read_text().startswith("learner,lesson,exercise")
    assert main(["class", "--csv", "-", "--form", "grades"]) == 0
    assert capsys.readouterr().out == "student_id,assignment,score,max_score\n"
    share_progress(True, details=True)
    assert "the hint of each try" in capsys.readouterr().out
    monkeypatch.delenv("COURSE_CLASS")
    assert main(["class"]) == 2
    assert "set COURSE_CLASS" in capsys.readouterr().err


def test_a_folder_is_made_as_it_has_to_be(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    place = tmp_path / "class"
    assert main(["class", "make", str(place)]) == 0
    assert place.stat().st_mode & 0o7777 == folder.MODE
    assert folder.readers(place).owner == os.getuid()
    assert main(["class", "make", str(place), "--group", "no-such-group-here"]) == 2
    assert "no group 'no-such-group-here' here" in capsys.readouterr().err
    assert main(["class", "make", str(place), "--members", "ada"]) == 2
    monkeypatch.setenv("COURSE_CLASS", "relative/folder")
    assert main(["class"]) == 2
    assert "is not an absolute path" in capsys.readouterr().err
