"""The lines that the ranks of a trial wrote, and the first wrong result among them.

Every rank wrote its own lines. What went wrong first, on the fewest ranks, is told; what only
follows from that, such as a rank that was left alone, is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.lab.plain_files import plain
from course_lib.teach.checklist import Checklist

Event = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """The lines of all ranks, by rank."""

    ranks: tuple[tuple[Event, ...], ...]

    @property
    def events(self) -> list[tuple[int, Event]]:
        return [(rank, event) for rank, lines in enumerate(self.ranks) for event in lines]

    def all(self, *kinds: str) -> list[tuple[int, Event]]:
        return [(rank, event) for rank, event in self.events if event.get("event") in kinds]

    def at(self, size: int, case: str, *kinds: str) -> list[list[Event]]:
        """The lines of each rank about one case, of these kinds."""
        return [
            [e for e in lines if (e.get("size"), e.get("case")) == (size, case)
             and e.get("event") in kinds]
            for lines in self.ranks[:size]
        ]  # fmt: skip

    @property
    def cases(self) -> list[tuple[int, str]]:
        """All that were begun, on the fewest ranks first."""
        found = {(e["size"], e["case"]): None for _, e in self.events if "size" in e}
        return sorted(found, key=lambda one: one[0])


def trial_of(check: Checklist, run: Any, exercise: str) -> Trial:
    """The lines that a run of this trial left; the run may have failed."""
    check.ended(run, "the trial")
    check.unless(
        run.recipe.flags.get("--exercise") != exercise,
        f"it is a trial of {exercise}",
        hint=f'This is the run {run.name!r}. Submit trial.recipe("…", "work/….py", "{exercise}").',
    )
    lines = [_lines(run, rank) for rank in range(run.recipe.devices)]
    check.unless(
        not all(lines), "every rank of the trial started", hint=run.error or f"See {run.log_file}."
    )
    return Trial(tuple(lines))


def _lines(run: Any, rank: int) -> tuple[Event, ...]:
    try:
        text = plain(run.paths.verdict / f"rank{rank}.jsonl").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    found = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # the rank was killed while it wrote
            continue
        if isinstance(event, dict):
            found.append(event)
    return tuple(found)


def wrong(trial: Trial) -> tuple[int, Event] | None:
    """The first wrong result: on the fewest ranks, in the earliest case."""
    order: dict[str, int] = {}
    for _, event in trial.all("result"):
        order.setdefault(event["case"], len(order))
    found = [(rank, event) for rank, event in trial.all("result") if not event["ok"]]
    return min(found, key=lambda one: (one[1]["size"], order[one[1]["case"]], one[0]), default=None)


def wrong_on(trial: Trial, event: Event) -> dict[int, Event]:
    """By rank, the wrong results of the same case."""
    others = trial.at(event["size"], event["case"], "result")
    return {rank: other[-1] for rank, other in enumerate(others) if other and not other[-1]["ok"]}


def right_on(trial: Trial, event: Event) -> list[int]:
    """Ranks whose result of the same case is right."""
    others = trial.at(event["size"], event["case"], "result")
    return [rank for rank, other in enumerate(others) if other and other[-1]["ok"]]


def is_equal(check: Checklist, trial: Trial, explain: Callable[[Trial, int, Event], str]) -> None:
    """Every result on every number of ranks is the serial one."""
    if (found := wrong(trial)) is not None:
        rank, event = found
        hint = f"{place(event)}, rank {rank}: {explain(trial, rank, event)}"
        check.refuse(f"equal to the serial result on {ranks(event['size'])}", hint)
    sizes = sorted({event["size"] for _, event in trial.all("result")})
    check.lines.append(
        f"✓ equal to the serial result on {', '.join(map(str, sizes[:-1]))} and {ranks(sizes[-1])}"
    )


def place(event: Event) -> str:
    return f"{event['case']}, on {ranks(event['size'])}"


def ranks(size: int) -> str:
    return f"{size} rank{'s' * (size != 1)}"


def listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
