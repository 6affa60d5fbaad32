"""Checks of lesson 02b, the fifteen edits."""

from __future__ import annotations

import re
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials import verdict
from course_lib.teach.trials.edits import EDITS, LOADS, ON_FEWER, waits_alone
from course_lib.teach.trials.job import script_edits
from course_lib.teach.trials.job.false_cluster import rehearse
from course_lib.teach.trials.judge import check_trial
from course_lib.teach.trials.verdict import Seen
from course_lib.words import N_, _

FEWER = N_("all edits also work on fewer ranks")
A_NUMBER = N_(
    "It was right with the earlier number of ranks. Does the program contain this number instead "
    "of dist.get_world_size()?"
)


def ex02b_program(run: Any) -> None:
    """Check twelve edits of a training program by what its ranks did."""
    with Checklist("02b.1") as check:
        trial = verdict.trial_of(check, run, "edits")
        seen = Seen(trial, len(trial.ranks))
        guilty = _missing_edit(seen)
        if trial.all("cannot load", "not own work", "printed") or (seen.error and guilty is None):
            _check_failed_run(check, seen, run)
        for number, edit in EDITS.items():
            said = edit.judge(seen)
            if number == guilty:
                check.unless(not said, _line(number), hint=seen.error)
            elif said is None and number < (guilty or _last_edit_reached(seen)):
                continue
            if said is None:
                _check_failed_run(check, seen, run)
                check.refuse(
                    _line(number),
                    _("No sign of this edit. {last_lines}", last_lines=run.last_lines()),
                )
            check.that(
                not said, _line(number), hint=_("Edit {number}: {said}", number=number, said=said)
            )
        fewer = _on_fewer(trial)
        _check_failed_run(check, seen, run, fewer)
        check.that(not fewer, FEWER, hint=fewer)


def _on_fewer(trial: verdict.Trial) -> str:
    """Judge the repeated first epoch, which ran on the ranks of one node."""
    few = min((event["size"] for _unused, event in trial.all("place")), default=0)
    seen = Seen(trial, few)
    if few == len(trial.ranks) or not any(seen.lines):
        return ""
    for number in ON_FEWER:
        if said := EDITS[number].judge(seen):
            return _(
                "On {few} ranks, edit {number}: {said} {a_number}",
                few=few,
                number=number,
                said=said,
                a_number=A_NUMBER,
            )
    ended = seen.ended or seen.error
    return (
        ""
        if ended
        else _("On {few} ranks the program does not end. {a_number}", few=few, a_number=A_NUMBER)
    )


def _last_edit_reached(seen: Seen) -> int:
    """Return the edit that the program has reached: the last one if it loaded its file, else 0."""
    return max(EDITS) if any(seen.of("loaded")) else 0


def _check_failed_run(check: Checklist, seen: Seen, run: Any, on_fewer: str = "") -> None:
    alone = waits_alone(seen)
    check.unless(bool(alone), _("all ranks join the same collectives"), hint=alone)
    check.unless(bool(on_fewer), FEWER, hint=on_fewer)
    check_trial(check, seen.trial, run)


def _line(number: int) -> str:
    return f"{number:2} {EDITS[number].does}"


def _missing_edit(seen: Seen) -> int | None:
    """Return the edit whose absence caused the error that ended the program; else None."""
    if seen.error and any(seen.of("not loaded")):
        return LOADS
    for number, edit in EDITS.items():
        if seen.error and re.search(edit.causes, seen.error):
            return number
    return None


def ex02b_script(run: Any) -> None:
    """Check three edits of the job by what it starts on each node and by its results."""
    with Checklist("02b.2") as check:
        check.ended(run, _("the job"))
        check.needs(
            bool(run.recipe.commands),
            _("the job runs your own commands"),
            hint=_('{name!r} has none. Submit shell.recipe("…", commands, …).', name=run.name),
        )
        jobs = rehearse(run.recipe.commands, run.recipe.environment)
        check.needs(
            bool(jobs),
            _("the commands run once more, on a simulated cluster"),
            hint=_("This check needs bash, which is not on this machine."),
        )
        for number, edit in script_edits.EDITS.items():
            said = next(edit.judge(run, jobs), "")
            check.that(
                not said,
                f"{number} {edit.does}",
                hint=_("Edit {number}: {said}", number=number, said=said),
            )
        check.ended_well(run, _("the job"))
        times = script_edits.count_epoch_lines(run.text)
        check.that(
            times == 1,
            _("one model was trained, and each epoch is reported once"),
            hint=_(
                "Its log reports epoch 1 {times} times.\n{last_lines}",
                times=times,
                last_lines=run.last_lines(),
            ),
        )
