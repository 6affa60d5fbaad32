"""Events of a whole program on some ranks, as `code/trials/program/watched.py` wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.teach.trials.judge import GONE
from course_lib.teach.trials.verdict import Event, Trial


@dataclass(frozen=True)
class Seen:
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
