"""Tell why the ranks of a trial could not load a learner's file."""

from __future__ import annotations

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.torch_errors import OWN_GROUP
from course_lib.teach.trials.verdict import Event, Trial
from course_lib.words import N_, _

TOO_EARLY = N_(
    "The file is imported before the ranks have met: ask for rank and size inside "
    "the class or function. The trial makes the groups, of 1, 2, 3 and 4 ranks."
)
OWN_WORK = N_("This is the course's solution. Replace it with your own lines.")


def could_load(check: Checklist, trial: Trial) -> None:
    imported = _("the file can be imported")
    for _unused, event in trial.all("own group"):
        check.stop(imported, f"{_at(event)}: {_(OWN_GROUP)}")
    for _unused, event in trial.all("not own work"):
        uses = _("{where} uses {what}.", where=_at(event), what=event["text"])
        check.stop(_("the work is your own"), f"{uses} {_(OWN_WORK)}")
    for _unused, event in trial.all("cannot load"):
        hint = f"{_at(event)}: {event['kind']}: {event['text']}"
        if "init_process_group" in event["text"]:
            hint += f"\n{_(TOO_EARLY)}"
        if event["kind"] == "SystemExit":
            hint = _("{where} ends the program. Define a function instead.", where=_at(event))
        check.stop(imported, hint)
    for _unused, event in trial.all("no function"):
        check.stop(
            _("the file defines {event}", event=event["wanted"]),
            _(
                "The file defines {there}. The name must be exactly {event}.",
                there=", ".join(event["there"]) or _("nothing that can be called"),
                event=event["wanted"],
            ),
        )
    for rank, event in trial.all("printed"):
        check.stop(
            _("the program does not print too much"),
            _("Rank {rank} printed more than {event} KiB and was stopped. Look for a loop "
              "without end.", rank=rank, event=event["bytes"] >> 10),
        )  # fmt: skip


def _at(event: Event) -> str:
    return _("line {line}", line=event["line"]) if event.get("line") else _("the file")
