"""Lesson 02b, the fifteen edits."""

from __future__ import annotations

import re
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials import batch_script, verdict
from course_lib.teach.trials.edits import EDITS, LOADS, Seen
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.one_rank import waits_alone


def ex02b_program(run: Any) -> None:
    """Twelve edits of a training program, by what its ranks did."""
    with Checklist("02b.1") as check:
        seen = Seen(verdict.trial_of(check, run, "edits"))
        guilty = _guilty(seen)
        if seen.trial.all("cannot load", "printed") or (seen.error and guilty is None):
            _ended_badly(check, seen, run)
        for number, edit in EDITS.items():
            said = edit.judge(seen)
            if number == guilty:
                check.unless(not said, _line(number), hint=seen.error)
            elif said is None and number < (guilty or _came_to(seen)):
                continue
            if said is None:
                _ended_badly(check, seen, run)
                check.refuse(_line(number), "Nothing was seen of it. " + run.tail())
            check.that(not said, _line(number), hint=f"Edit {number}: {said}")
        _ended_badly(check, seen, run)


def _came_to(seen: Seen) -> int:
    """The edit before which nothing can have stopped a program that has loaded its file."""
    return max(EDITS) if any(seen.of("loaded")) else 0


def _ended_badly(check: Checklist, seen: Seen, run: Any) -> None:
    alone = waits_alone(seen)
    check.unless(bool(alone), "all ranks come to the same meetings", hint=alone)
    came_through(check, seen.trial, run)


def _line(number: int) -> str:
    return f"{number:2} {EDITS[number].does}"


def _guilty(seen: Seen) -> int | None:
    """The edit whose absence led to the error that ended the program."""
    if seen.error and any(seen.of("not loaded")):
        return LOADS
    for number, edit in EDITS.items():
        if seen.error and re.search(edit.causes, seen.error):
            return number
    return None


def ex02b_script(run: Any) -> None:
    """Three edits of the job, by its lines and by what came of them."""
    with Checklist("02b.2") as check:
        check.ended(run, "the job")
        check.unless(
            not batch_script.text_of(run),
            "the job runs commands of your own",
            hint=f'{run.name!r} has none. Submit shell.recipe("…", commands, …).',
        )
        for number, edit in batch_script.EDITS.items():
            said = edit.judge(run)
            check.that(not said, f"{number} {edit.does}", hint=f"Edit {number}: {said}")
        check.that(run.ok, "the job ended well", hint=run.error)
        times = batch_script.times_told(run.text)
        check.that(
            times == 1,
            "one model was trained: each epoch is told once",
            hint=f"Epoch 1 is told {times} times in its log.\n{run.tail()}",
        )
