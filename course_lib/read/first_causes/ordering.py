"""Order of the lines about a failure: causes first, then consequences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from course_lib.read.first_causes.later_steps import SURVIVED_AFTER, SURVIVED_BEFORE_THE_END
from course_lib.read.first_causes.rules import DIED, REPORT, ROOT, SECONDARY, WARNED, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner

BY_SCHEDULER = {"time_limit", "cancelled", "preempted", "node_failure"}
_ENDED_BADLY = {"process_failed", "task_failure", "killed", "crashed", "aborted"}
_OF_THE_WAITING = {"collective_timeout", "stayed_away"}
# From these lines on, Slurm kills the rest of a step.
_CLEARED = ("Job step aborted", "Terminating StepId", "Force Terminated")
# Date later than every month.
_NEVER = (99.0,)
# Lines that may follow an error printed with a warning if it ended the run.
_FEW_LINES = 20


def causes_first(scanner: Scanner) -> list[FailureLine]:
    """Order by tier and, if several files have to be compared, by time. Errors that the run
    survived are left out."""
    lasting = [*_lasting([*_without_cleaning_up(scanner.events)], scanner)]
    timed = len({event.source.name for event in lasting}) > 1
    waited = [event for event in lasting if event.cause == "collective_timeout"]
    if timed:
        waited.sort(key=lambda event: event.moment or _NEVER)
    keyed = [
        (_tier(event, waited), (event.moment or _NEVER) if timed else (), number, event)
        for number, event in enumerate(lasting)
    ]
    return [replace(event, tier=tier) for tier, _, _, event in sorted(keyed, key=lambda k: k[:3])]


def _without_cleaning_up(events: list[FailureLine]) -> Iterator[FailureLine]:
    """Mark lines that only follow a failure. After Slurm has reported a failed task, it cancels the
    step, other ranks lose their peer, and Slurm kills the other tasks. A bare message about a
    cancelled step may also precede the line with the reason."""
    explained = any(event.cause in BY_SCHEDULER - {"cancelled"} for event in events)
    failed, cleared = set(), set()
    for event in events:
        name, by_srun = event.source.name, "task" in event.details
        follows = (
            (event.cause == "cancelled" and explained)
            or (name in failed and (event.cause == "cancelled" or event.tier == SECONDARY))
            or (name in cleared and by_srun and event.tier == DIED)
        )
        yield replace(event, tier=REPORT) if follows else event
        if by_srun:
            failed.add(name)
        if any(word in event.text for word in _CLEARED):
            cleared.add(name)


def _lasting(events: list[FailureLine], scanner: Scanner) -> Iterator[FailureLine]:
    """Yield errors after which the run made no further steps.

    If a run reports its end, only what Slurm itself did to it remains, and errors in its remaining
    work, such as saving. Messages without a traceback then count only if a launcher saw a process
    fail, because ranks lose their peers at a normal end too."""
    stopped = any(event.cause in BY_SCHEDULER and event.tier == ROOT for event in events)
    failed_after = {
        event.source.name
        for event in events
        if event.cause in _ENDED_BADLY
        and event.tier not in (WARNED, WARNING)
        and not event.ends_traceback
        and event.line < scanner.steps[event.source.name].end
        and scanner.steps[event.source.name].after(event.line) < SURVIVED_AFTER
    }
    ends = {name: 0 if name in failed_after else steps.end for name, steps in scanner.steps.items()}
    finished = any(ends.values())
    failed = any(event.cause in _ENDED_BADLY for event in events)
    after = SURVIVED_BEFORE_THE_END if finished or stopped else SURVIVED_AFTER
    reports = {event.source.name: event.line for event in events[::-1] if event.tier == REPORT}
    for event in events:
        name = event.source.name
        survived = scanner.steps[name].after(event.line) >= after or event.line <= ends[name]
        usual = event.cause in BY_SCHEDULER - {"cancelled"}
        usual = usual or (event.tier == ROOT and (event.ends_traceback or failed))
        last = reports.get(name, scanner.lines[name] if event.ends_traceback else math.inf)
        harmless = event.tier == WARNED and abs(last - event.line) > _FEW_LINES
        if not (survived or (finished and not usual)):
            yield replace(event, tier=WARNING) if harmless else event


def _tier(event: FailureLine, waited: list[FailureLine]) -> int:
    """Return the tier of an event. An error after minutes of waiting ranks cannot be the reason for
    the wait; a line that only warns counts as a report."""
    if event.tier == WARNED and not event.ends_traceback:
        return REPORT
    if not waited or event.tier >= WARNED or event.cause in _OF_THE_WAITING:
        return event.tier
    if event.source == waited[0].source:
        late = event.line > waited[0].line
    else:
        late = (event.moment or ()) > (waited[0].moment or _NEVER)
    return REPORT if late else event.tier
