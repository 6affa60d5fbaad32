"""Lesson 16, when it breaks."""

from __future__ import annotations

from typing import Any

from course_lib.lab.workspace import find
from course_lib.teach.checklist import Checklist, NotYet
from course_lib.teach.diagnoses.judging import case_in, judge, keep, score
from course_lib.teach.slips import Quantity

NODES, DEVICES, MINUTES = 96, 4, 10


def ex16_hang(device_hours: object) -> None:
    """What a hang costs until a time-out ends it."""
    with Checklist("16.1") as check:
        given = check.number(device_hours, "device_hours")
        check.amount(
            given,
            Quantity(
                right=NODES * DEVICES * MINUTES / 60,
                unit="device-hours",
                fine=0.001,
                own=(
                    (
                        (NODES * DEVICES - 1) * MINUTES / 60,
                        "You left out the rank that hangs. Its device is paid for as well.",
                    ),
                    (
                        (NODES - 1) * DEVICES * MINUTES / 60,
                        "You left out the node that hangs. It is paid for as well.",
                    ),
                ),
                known={
                    "the number of devices": NODES * DEVICES,
                    "the number of nodes": NODES,
                    "the minutes": MINUTES,
                    "the hours of one device": MINUTES / 60,
                },
                counts={"nodes": NODES, "devices of a node": DEVICES},
            ),
            "that is what the hang costs",
            hint="All devices are paid for, also those that only wait, from the hang to the "
            "time-out.",
        )


def ex16_warm_up(run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """The first blind case, which all learners have."""
    with Checklist("16.2") as check:
        judge(check, run, cause, rank, node, cure)


def ex16_mystery(run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """A blind case of the learner's choice; each counts for the score."""
    folder = find().folder
    case = case_in(run)
    try:
        with Checklist("16.3") as check:
            judge(check, run, cause, rank, node, cure)
    except NotYet:
        if case is not None and not _has_gaps(cause, rank, node, cure):
            keep(folder, run.name, False)
        raise
    if case is not None:
        keep(folder, run.name, True)
        print(score(folder))


def _has_gaps(*answers: Any) -> bool:
    return any(answer is ... for answer in answers)
