"""A learner's file that the ranks of a trial could not take, before any function was called."""

from __future__ import annotations

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.told_by_torch import OWN_GROUP
from course_lib.teach.trials.verdict import Trial, place

TOO_EARLY = (
    "The file is imported before the ranks have met: ask for rank and size inside the class or "
    "function. The trial makes the groups, of 1, 2, 3 and 4 ranks."
)


def could_load(check: Checklist, trial: Trial) -> None:
    for _, event in trial.all("own group"):
        check.refuse("the file can be imported", f"Line {event['line']}: {OWN_GROUP}")
    for _, event in trial.all("cannot load"):
        where = f", line {event['line']}" if event.get("line") else ""
        hint = f"{event['kind']}{where}: {event['text']}"
        if "init_process_group" in event["text"]:
            hint += f"\n{TOO_EARLY}"
        if event["kind"] == "SystemExit":
            hint = f"It ends the program (sys.exit{where}) instead of defining a function."
        check.refuse("the file can be imported", hint)
    for _, event in trial.all("no function"):
        there = ", ".join(event["there"]) or "nothing that can be called"
        check.refuse(
            f"the file defines {event['wanted']}",
            f"It defines {there}. The name has to be {event['wanted']}, letter by letter.",
        )
    for rank, event in trial.all("printed"):
        where = f" ({place(event)})" if "case" in event else ""
        check.refuse(
            "it prints no more than a person reads",
            f"Rank {rank} printed more than {event['bytes'] >> 10} KiB{where} and was stopped. "
            "Look for a loop without end.",
        )
