"""Errors that seemed harmless, because a warning went with them or another process lived on.

They are what ended the run if nothing came after them but its end.
"""

from __future__ import annotations

from dataclasses import replace

from course_lib.read.first_causes.rules.rule import REPORT, ROOT, SECONDARY, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner, rank_of, tasks_of

_FEW_LINES = 20
"""So many lines that tell of no failure may stand among those at the end of a log."""


def with_last_words(events: list[FailureLine], scanner: Scanner) -> list[FailureLine]:
    """Gives warned errors back their own tier where nothing else can have ended the run."""
    if scanner.finished or any(event.tier == ROOT for event in events):
        return events
    ends = _beginnings_of_ends(events, scanner)
    found = [
        replace(event, tier=event.last_tier)
        if event.tier == WARNING and event.ends_traceback and event.line >= ends[event.source.name]
        else event
        for event in events
    ]
    if all(event.tier >= REPORT for event in found) and any(e.tier == REPORT for e in found):
        return [
            replace(event, tier=SECONDARY) if event.last_tier == SECONDARY else event
            for event in found
        ]
    return found


def _beginnings_of_ends(events: list[FailureLine], scanner: Scanner) -> dict[str, int]:
    """The line in each log from which on it tells of little but failures."""
    ends = {event.source.name: scanner.lines[event.source.name] + 1 for event in events}
    for event in sorted(events, key=lambda event: event.line, reverse=True):
        if ends[event.source.name] - event.line <= _FEW_LINES:
            ends[event.source.name] = min(event.begin, ends[event.source.name])
    return ends


_VICTIMS = {"lost_peer", "nccl_error", "connect_failed"}
_DIED = {"killed", "crashed"}
_FAILED = {"process_failed", "aborted"}
_CLEARED = ("Job step aborted", "Terminating StepId", "Force Terminated")
"""From here on Slurm kills what is left of a step."""


def dead_before_victims(events: list[FailureLine], scanner: Scanner) -> list[FailureLine]:
    """Who finds its peer gone speaks before the launcher tells which one died, and yet follows."""
    victims = {
        rank
        for event in events
        if event.cause in _VICTIMS and (rank := rank_of(event, scanner)) is not None
    }
    if not any(_died(event, events, victims, scanner) for event in events):
        return events
    return [
        replace(event, tier=REPORT) if event.cause in _VICTIMS and event.tier < REPORT else event
        for event in events
    ]


def _died(
    event: FailureLine, events: list[FailureLine], victims: set[int], scanner: Scanner
) -> bool:
    if event.tier == WARNING or event.cause not in _DIED | _FAILED:
        return False
    tasks = set(tasks_of(event))
    of_srun = bool(tasks) and not scanner.launcher
    if of_srun and not tasks - victims:
        return False
    before = [other for other in events if other.source == event.source and other.line < event.line]
    if event.cause in _FAILED:
        return of_srun and not any(other.cause in _VICTIMS for other in before)
    if of_srun:
        return not any(word in other.text for other in before for word in _CLEARED)
    return "exitcode" in event.text
