"""Checks of lesson 16, when runs fail."""

from __future__ import annotations

from typing import Any

from course_lib.lab.workspace import find
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses import judging, lists
from course_lib.teach.trials.judge import tried

ex16_watchdog = tried("16.1", "watchdog")
ex16_causes = lists.causes_table
ex16_cures = lists.cures_table


def ex16_warm_up(run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """Check the first blind case, which is the same for all learners."""
    with Checklist("16.2") as check:
        judging.diagnosis(check, run, cause, rank, node, cure).judge(check)


def ex16_mystery(run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """Check a blind case of the learner's choice, and add it to the score."""
    folder = find().folder
    diagnosis, is_solved = None, False
    try:
        with Checklist("16.3") as check:
            diagnosis = judging.diagnosis(check, run, cause, rank, node, cure)
            diagnosis.judge(check)
            is_solved = True
    finally:
        if diagnosis is not None:
            judging.keep(folder, run.name, is_solved=is_solved)
    print(judging.score(folder))
