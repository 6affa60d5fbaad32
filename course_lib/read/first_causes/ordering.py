"""Which of the lines that tell of a failure is its cause, and which only follow."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from course_lib.read.first_causes.doubts import dead_before_victims, with_last_words
from course_lib.read.first_causes.rules.rule import REPORT, ROOT, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner

if TYPE_CHECKING:
    from course_lib.read.training_logs.result import TrainingLog

SURVIVED_AFTER = 3
"""So many more iterations in the same log mean that an error was not the end."""
BY_SCHEDULER = {"time_limit", "cancelled", "preempted", "node_failure"}
_ENDED_BADLY = {"process_failed", "task_failure", "killed", "crashed", "aborted"}
_OF_THE_WAITING = {"collective_timeout", "stayed_away"}
_OF_TORCHRUN = re.compile(r"closing signal SIGTERM|exitcode +: -15|Signal 15 \(SIGTERM\) received")
_NEVER = (99.0,)
"""A month that is later than all others."""


def causes_first(scanner: Scanner) -> list[FailureLine]:
    """Causes before consequences; then by time where several files must be compared.

    What the run survived is left out.
    """
    after = 2 if scanner.finished else SURVIVED_AFTER  # two streams may come in another order
    lasting = [event for event in scanner.events if scanner.steps_after(event) < after]
    lasting = dead_before_victims(with_last_words(lasting, scanner), scanner)
    timed = len({event.source.name for event in lasting}) > 1
    waited = next((event for event in lasting if event.cause == "collective_timeout"), None)
    if timed and waited is not None:
        timeouts = [event for event in lasting if event.cause == "collective_timeout"]
        waited = min(timeouts, key=lambda event: event.moment or _NEVER)
    lasting = _without_torchruns_own_signals(_without_bare_cancels(lasting))
    keyed = [
        (_tier(event, waited), (event.moment or _NEVER) if timed else (), number, event)
        for number, event in enumerate(lasting)
    ]
    return [replace(event, tier=tier) for tier, _, _, event in sorted(keyed, key=lambda k: k[:3])]


def after_the_end(ordered: list[FailureLine]) -> list[FailureLine]:
    """Of a run that has made its last iteration: what Slurm did to it, and what went wrong with
    what was left to do, such as saving. Words without a traceback count only where a launcher
    saw a process fail; what ranks say that find their peers gone is the usual end."""
    failed = any(event.cause in _ENDED_BADLY for event in ordered)
    return [
        event
        for event in ordered
        if event.cause in BY_SCHEDULER
        or (event.tier == ROOT and (event.ends_traceback or failed))
        or event.tier == WARNING
    ]


def without_survived(ordered: list[FailureLine], log: TrainingLog) -> list[FailureLine]:
    """Of a run that Slurm ended: without what came before its last iterations, of any trainer
    (one more may be on its way when another rank breaks)."""
    logged: dict[str, list[int]] = {}
    if not log.iterations.empty:
        for file, rows in log.iterations.groupby("file", observed=True):
            logged[str(file)] = sorted(rows["line"].tolist())[-2:]
    return [
        event
        for event in ordered
        if event.cause in BY_SCHEDULER
        or len(last := logged.get(event.source.name, [])) < 2
        or event.line > last[0]
    ]


def _without_bare_cancels(events: list[FailureLine]) -> list[FailureLine]:
    """Slurm's bare word of a cancelled step follows when a task has failed, or goes before the
    word with the reason: then it is a report only."""
    explained = any(event.cause in BY_SCHEDULER - {"cancelled"} for event in events)
    failed: dict[str, int] = {}
    for event in events:
        if "task" in event.details:
            failed.setdefault(event.source.name, event.line)
    return [
        replace(event, tier=REPORT)
        if event.cause == "cancelled"
        and (explained or failed.get(event.source.name, event.line) < event.line)
        else event
        for event in events
    ]


def _without_torchruns_own_signals(events: list[FailureLine]) -> list[FailureLine]:
    """torchrun tells first that it ends the other ranks, and then of the one that it does so for:
    in one whose program left with a code of its own, nobody told the job to stop."""
    left = {"process_failed", "aborted"}
    failed = any(
        event.cause in left and "failed (exitcode" in event.text and event.tier >= REPORT
        for event in events
    )
    if not failed:
        return events
    return [
        event
        for event in events
        if event.cause != "terminated" or not _OF_TORCHRUN.search(event.text)
    ]


def _tier(event: FailureLine, waited: FailureLine | None) -> int:
    """What comes after ranks waited in vain for minutes cannot be why they waited."""
    if waited is None or event.tier >= REPORT or event.cause in _OF_THE_WAITING:
        return event.tier
    if event.source == waited.source:
        late = event.line > waited.line
    else:
        known = event.moment and waited.moment
        late = bool(known and event.moment > waited.moment)  # type: ignore[operator]
    return REPORT if late else event.tier
