"""A trial that did not come through: which mistake of the learner's ended it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.ends import (
    MESSAGES,
    called,
    never_waited_for,
    thrown_away,
    why_not_met,
    with_root,
)
from course_lib.teach.trials.loading import could_load
from course_lib.teach.trials.told_by_torch import EQUAL_PIECES, in_short, why_error
from course_lib.teach.trials.verdict import Event, Trial, listed, ranks, wrong

GONE = re.compile(r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|Socket closed|[Ff]ailed to")
SHOWN_CALLS = 6
ALONE = "Nobody else is there to wait for: look for a loop that never ends."
ALL_WAIT_IN = {
    frozenset({"send"}): "Every rank waits in send until its neighbour receives, and no neighbour "
    "does, because it waits in send as well. isend starts sending and goes on.",
    frozenset({"broadcast"}): "All wait in broadcast: src is the rank whose numbers all take, the "
    "same on every rank.",
    frozenset({"reduce"}): "All wait in reduce: dst is the rank that gets the sum, the same on "
    "every rank. Who wants a sum for each rank calls it once for each, all ranks in the same "
    "order.",
    frozenset({"recv", "irecv"}): "Every rank waits for a message that nobody sends.",
    frozenset({"isend"}): "Every rank waits until its neighbour has taken what it sends, and no "
    "neighbour receives, because it waits as well: first recv, then wait().",
}


def came_through(check: Checklist, trial: Trial, run: Any) -> None:
    """The file could be loaded, and no rank failed, hung or printed without end."""
    could_load(check, trial)
    found = wrong(trial)
    _in_one_order(check, trial, found[1]["size"] if found else len(trial.ranks))
    exercise = run.recipe.flags.get("--exercise", "")
    _failed(check, trial, found[1]["size"] if found else None, exercise)
    if found is not None:  # told by the check; what ended badly after it is of no interest
        return
    _stuck(check, trial)
    through = [rank for rank, event in trial.all("end")]
    check.unless(
        len(through) < len(trial.ranks),
        "all ranks came to the end",
        hint=f"Ranks {listed(set(range(len(trial.ranks))) - set(through))} ended before. "
        f"{_observed_at_last(trial) or run.error or run.tail()}",
    )


def _failed(check: Checklist, trial: Trial, wrong_on: int | None, exercise: str) -> None:
    """A rank that lost another one tells of an error too, which only follows. So does one on more
    ranks than those that gave a wrong result."""
    errors = [
        (rank, event)
        for rank, event in trial.all("error")
        if wrong_on is None or event.get("size", 0) <= wrong_on
    ]
    own = [(rank, event) for rank, event in errors if not GONE.search(event["text"])]
    if wrong_on is None and not trial.all("stuck"):
        own = own or errors
    if not own:
        return
    rank, event = min(own, key=lambda one: one[1].get("size", 0))
    where = f", line {event['line']}" if event.get("line") else ""
    told = f"Rank {rank}{where}: {event['kind']}: {in_short(event['text'])}"
    if event["kind"] == "SystemExit":
        told = f"Rank {rank}{where} ends the program (sys.exit)."
    hint = why_not_met(trial, event["size"], event.get("case", ""))
    hint = hint or why_error(event, exercise) or thrown_away(trial, event["size"])
    check.refuse(f"no error on {ranks(event['size'])}", f"{told}\n{hint}".strip())


def _in_one_order(check: Checklist, trial: Trial, most: int) -> None:
    """All ranks have to call the same collectives in the same order; on so many ranks at most."""
    for size, case in trial.cases:
        if size > most:
            break
        first, *others = [
            [called(call) for call in calls if call["call"] not in MESSAGES]
            for calls in trial.at(size, case, "call")
        ]
        done = [bool(lines) for lines in trial.at(size, case, "result")]
        for rank, other in enumerate(others, 1):
            together = min(len(first), len(other))
            # Who was ended by a launcher has called less, and who is done has nothing to add.
            ended = done[0] if len(first) < len(other) else done[rank]
            short = len(first) != len(other) and ended
            if short or first[:together] != other[:together]:
                check.refuse(
                    f"all ranks call the same collectives, in the same order, on {ranks(size)}",
                    f"{case}\n{_both_orders(first, rank, other)}",
                )


def _both_orders(first: Sequence[str], rank: int, other: Sequence[str]) -> str:
    def shown(calls: Sequence[str], start: int) -> str:
        some = calls[start : start + SHOWN_CALLS]
        more = ["…"] if len(calls) > start + SHOWN_CALLS else []
        return ", ".join([*some, *more]) or "nothing more"

    pairs = zip(first, other, strict=False)
    differs = next((n for n, pair in enumerate(pairs) if pair[0] != pair[1]), None)
    start = max(0, (min(len(first), len(other)) if differs is None else differs) - 1)
    why = (
        "A collective is a meeting of all ranks. The first call of one meets the first call of the "
        "others, whatever it is for; where they differ, ranks wait for ever or mix numbers up."
    )
    if differs is not None and _differ_in_size(first[differs], other[differs]):
        why = EQUAL_PIECES
    return (
        f"From call {start + 1} on:\nrank 0: {shown(first, start)}\n"
        f"rank {rank}: {shown(other, start)}\n{why}"
    )


def _differ_in_size(one: str, other: str) -> bool:
    """Two calls that take one piece from each rank."""
    name = one.partition("(")[0]
    return name == other.partition("(")[0] and ("gather" in name or "scatter" in name)


def _stuck(check: Checklist, trial: Trial) -> None:
    stuck = trial.all("stuck")
    if not stuck:
        return
    size, case = min((event.get("size", 0), event.get("case", "")) for _, event in stuck)
    if not size:
        check.refuse("the file can be imported", f"It does not come to an end: {_at(stuck[0][1])}.")
    last = [calls[-1:] for calls in trial.at(size, case, "call")]
    told = []
    for rank, seen in enumerate(trial.at(size, case, "stuck", "left alone")):
        call = with_root(last[rank][0]) if last[rank] else "none yet"
        told.append(f"rank {rank} is {_at(seen[0]) if seen else 'through'}; last call: {call}")
    why = _why_stuck(trial, [call for calls in last for call in calls], size, case)
    check.refuse(f"it comes to an end on {ranks(size)}", "\n".join([f"{case}:", *told, why]))


def _at(event: Event) -> str:
    return f"at line {event['line']}" if event.get("line") else "outside of the file"


def _why_stuck(trial: Trial, last: Sequence[Event], size: int, case: str) -> str:
    if not last:
        return "No rank has sent or received anything: look for a loop that never ends."
    told = why_not_met(trial, size, case) or thrown_away(trial, size)
    if told := told or (ALONE if size == 1 else ""):
        return told
    waiting = {call["call"] for call in last}
    for names, told in ALL_WAIT_IN.items():
        if waiting <= names:
            return told
    return "A message needs both ends, and a collective all ranks: which rank is missing in it?"


def _observed_at_last(trial: Trial) -> str:
    """What ends a process without a word: gloo may where a message has no other end, and a tensor
    that is freed while a collective still writes to it."""
    if not trial.cases:
        return ""
    size, case = trial.cases[-1]
    return (
        why_not_met(trial, size, case)
        or thrown_away(trial, size)
        or never_waited_for(trial, size, case)
    )
