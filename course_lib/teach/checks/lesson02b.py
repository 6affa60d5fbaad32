"""Lesson 02b, the fifteen edits."""

from __future__ import annotations

import re
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials import verdict
from course_lib.teach.trials.edits import EDITS, LOADS, ON_FEWER, Seen
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.job import batch_script
from course_lib.teach.trials.one_rank import waits_alone

FEWER = "all of it on fewer ranks too"
A_NUMBER = (
    "It was right on as many ranks as the program had before: a number of them stands in it, where "
    "dist.get_world_size() belongs."
)


def ex02b_program(run: Any) -> None:
    """Twelve edits of a training program, by what its ranks did."""
    with Checklist("02b.1") as check:
        trial = verdict.trial_of(check, run, "edits")
        seen = Seen(trial, len(trial.ranks))
        guilty = _guilty(seen)
        if trial.all("cannot load", "printed") or (seen.error and guilty is None):
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
        fewer = _on_fewer(trial)
        _ended_badly(check, seen, run, fewer)
        check.that(not fewer, FEWER, hint=fewer)


def _on_fewer(trial: verdict.Trial) -> str:
    """The first epoch ran once more on the ranks of one node."""
    few = min((event["size"] for _, event in trial.all("place")), default=0)
    seen = Seen(trial, few)
    if few == len(trial.ranks) or not any(seen.lines):
        return ""
    for number in ON_FEWER:
        if said := EDITS[number].judge(seen):
            return f"On {few} ranks, edit {number}: {said} {A_NUMBER}"
    ended = seen.ended or seen.error
    return "" if ended else f"On {few} ranks the program does not come to its end. {A_NUMBER}"


def _came_to(seen: Seen) -> int:
    """The edit before which nothing can have stopped a program that has loaded its file."""
    return max(EDITS) if any(seen.of("loaded")) else 0


def _ended_badly(check: Checklist, seen: Seen, run: Any, on_fewer: str = "") -> None:
    alone = waits_alone(seen)
    check.unless(bool(alone), "all ranks come to the same meetings", hint=alone)
    check.unless(bool(on_fewer), FEWER, hint=on_fewer)
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
    """Three edits of the job, by what its commands start on each node and by what came of them."""
    with Checklist("02b.2") as check:
        check.ended(run, "the job")
        check.unless(
            not batch_script.text_of(run),
            "the job runs commands of your own",
            hint=f'{run.name!r} has none. Submit shell.recipe("…", commands, …).',
        )
        jobs = batch_script.rehearsed(run)
        check.unless(
            not jobs,
            "the commands run once more, on a false cluster",
            hint="There is no bash on this machine, which this check needs for that.",
        )
        for number, edit in batch_script.EDITS.items():
            said = edit.judge(run, jobs)
            check.that(not said, f"{number} {edit.does}", hint=f"Edit {number}: {said}")
        check.that(run.ok, "the job ended well", hint=run.error)
        times = batch_script.times_told(run.text)
        check.that(
            times == 1,
            "one model was trained: each epoch is told once",
            hint=f"Epoch 1 is told {times} times in its log.\n{run.tail()}",
        )
