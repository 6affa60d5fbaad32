"""Plans for a class, whose minutes are the minutes of the lessons."""

from __future__ import annotations

import pytest

from course_lib.publish.building.source import LessonError, lessons_in, read_lesson
from course_lib.publish.slides import timetable


def plans(repository):
    every = [read_lesson(path) for path in lessons_in(repository / "lessons", "py")]
    return timetable.read(repository / "lessons", every), every


def test_there_are_plans_for_half_a_day_a_day_and_five(repository):
    told, _ = plans(repository)
    assert [len(plan.days) for plan in told] == [1, 1, 5]
    assert told[0].days[0][-1].begin <= "12:30"


def test_no_day_is_longer_than_people_can_listen(repository):
    told, _ = plans(repository)
    for plan in told:
        for day in plan.days:
            assert day[-1].begin <= "17:00", plan.name
            sitting = 0
            for entry in day:
                is_rest = not entry.lesson and entry.what in ("Break", "Lunch")
                sitting = 0 if is_rest else sitting + entry.minutes
                assert sitting <= 100, f"{plan.name}: no break before {entry.what}"


def test_five_days_hold_every_lesson_once(repository):
    told, every = plans(repository)
    taken = [entry.what for day in told[-1].days for entry in day if entry.lesson]
    assert sorted(taken) == sorted(lesson.title for lesson in every)


def test_minutes_are_those_of_the_lessons(repository):
    told, every = plans(repository)
    stated = {lesson.title: timetable.minutes_of(lesson) for lesson in every}
    for plan in told:
        for day in plan.days:
            assert all(entry.minutes == stated[entry.what] for entry in day if entry.lesson)


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ({"days": [{"begin": "09:00", "plan": ["99"]}], "late": []}, "'99' is neither a lesson"),
        (
            {
                "days": [{"begin": "09:00", "plan": ["00"]}],
                "late": [{"lesson": "00", "section": "Gone", "minutes": 5}],
            },
            "lesson 00 has no section 'Gone'",
        ),
        (
            {
                "days": [{"begin": "09:00", "plan": ["00"]}],
                "late": [{"lesson": "01", "section": "Read ahead", "minutes": 5}],
            },
            "no lesson '01' to shorten",
        ),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused(repository, tmp_path, plan, problem):
    import tomli_w

    _, every = plans(repository)
    told = {"timetable": [{"name": "x", "words": "y", **plan}]}
    (tmp_path / timetable.FILE).write_text(tomli_w.dumps(told))
    with pytest.raises(LessonError, match=problem):
        timetable.read(tmp_path, every)


def test_the_command_prints_clock_minutes_and_what_to_leave_out(capsys):
    assert timetable.main([]) == 0
    printed = capsys.readouterr().out
    assert "  09:10   30 min  00 The lab" in printed
    assert "“Hide communication behind the backward pass” of lesson 03: 10 minutes" in printed
