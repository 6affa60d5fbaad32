"""Read the events that the ranks of a trial wrote, and find the first wrong result.

The first mistake on the fewest ranks counts. Consequences, such as a rank that waits because
another failed, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.teach import jsonl
from course_lib.teach.checklist import Checklist
from course_lib.words import _

Event = dict[str, Any]
# Errors that only follow from a lost rank.
GONE = re.compile(r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|Socket closed|[Ff]ailed to")


@dataclass(frozen=True)
class Trial:
    """Events of all ranks, by rank."""

    ranks: tuple[tuple[Event, ...], ...]

    @property
    def events(self) -> list[tuple[int, Event]]:
        return [(rank, event) for rank, lines in enumerate(self.ranks) for event in lines]

    def all(self, *kinds: str) -> list[tuple[int, Event]]:
        return [(rank, event) for rank, event in self.events if event.get("event") in kinds]

    def at(self, size: int, case: str, *kinds: str) -> list[list[Event]]:
        """Return the events of these kinds about one case, for each rank."""
        return [
            [e for e in lines if (e.get("size"), e.get("case")) == (size, case)
             and e.get("event") in kinds]
            for lines in self.ranks[:size]
        ]  # fmt: skip

    @property
    def cases(self) -> list[tuple[int, str]]:
        """Return all cases that were started, smallest number of ranks first."""
        found = {(e["size"], e["case"]): None for _unused, e in self.events if "size" in e}
        return sorted(found, key=lambda one: one[0])


@dataclass(frozen=True)
class Seen:
    """Events of a whole program on some ranks, from `code/trials/program/watched.py`."""

    trial: Trial
    size: int

    @property
    def lines(self) -> list[list[Event]]:
        """Return all events of each rank."""
        ranks = self.trial.ranks[: self.size]
        return [[e for e in lines if e.get("size") == self.size] for lines in ranks]

    def of(self, kind: str, part: str = "") -> list[list[Event]]:
        """Return the events of one kind, for each rank."""
        return [
            [e for e in lines if e["event"] == kind and part in ("", e.get("part"))]
            for lines in self.lines
        ]

    def first(self, kind: str, part: str = "") -> list[Event] | None:
        """Return the first event of each rank; None if a rank has none."""
        found = self.of(kind, part)
        return [events[0] for events in found] if all(found) else None

    @property
    def error(self) -> str:
        """Return the program's own errors, without those that only follow from a lost rank."""
        errors = [event for events in self.of("error") for event in events]
        texts = [f"{event['kind']}: {event['text']}" for event in errors]
        return "\n".join(text for text in texts if not GONE.search(text))

    @property
    def ended(self) -> bool:
        return all(self.of("followed"))


def trial_of(check: Checklist, run: Any, exercise: str) -> Trial:
    """Return the events of a run of this trial, which may have failed."""
    check.ended(run, _("the trial"))
    check.needs(
        run.recipe.flags.get("--exercise") == exercise,
        _("this is a trial of {exercise}", exercise=exercise),
        hint=_(
            'This is the run {name!r}. Submit trial.recipe("…", "work/….py", "{exercise}").',
            name=run.name,
            exercise=exercise,
        ),
    )
    files = [run.paths.verdict / f"rank{rank}.jsonl" for rank in range(run.recipe.devices)]
    lines = [tuple(jsonl.entries(file)) for file in files]
    check.needs(
        all(lines),
        _("every rank of the trial started"),
        hint=run.error or _("See {log_file}.", log_file=run.log_file),
    )
    return Trial(tuple(lines))


def wrong(trial: Trial) -> tuple[int, Event] | None:
    """Return the first wrong result: on the fewest ranks, in the earliest case; None if none."""
    order: dict[str, int] = {}
    for _unused, event in trial.all("result"):
        order.setdefault(event["case"], len(order))
    found = [(rank, event) for rank, event in trial.all("result") if not event["ok"]]
    return min(found, key=lambda one: (one[1]["size"], order[one[1]["case"]], one[0]), default=None)


def called(call: Event) -> str:
    """Format a call: `all_reduce(90 numbers)`, `send(6 numbers, to 1)`."""
    told = _("{call} numbers", call=call["numbers"]) if call.get("numbers") else ""
    if "peer" in call:
        told += f", {'to' if call['call'].endswith('send') else 'from'} {call['peer']}"
    if call.get("root") is not None:
        told += f", {'dst' if call['call'] == 'reduce' else 'src'} {call['root']}"
    return f"{call['call']}({told})"


def place(event: Event) -> str:
    return _("{event}, on {event2}", event=event["case"], event2=ranks(event["size"]))


def ranks(size: int) -> str:
    return _("{size} rank{s}", size=size, s="s" * (size != 1))


def listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(numbers))))


def ranks_of(who: Sequence[int]) -> str:
    return _("rank {who}", who=who[0]) if len(who) == 1 else _("ranks {who}", who=listed(who))
