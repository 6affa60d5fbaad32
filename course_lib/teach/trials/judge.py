"""Find the first mistake of a learner's function on real ranks, and explain it.

Each rank writes its own events. The report names the first mistake, on the fewest ranks. It
leaves out consequences, such as a rank that waits because another rank failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials import shares
from course_lib.teach.trials.hints import GENERAL, HINTS, REQUIREMENTS, SERIAL
from course_lib.teach.trials.own_file import could_load
from course_lib.teach.trials.torch_errors import EQUAL_PIECES, ONE_ROOT, in_short, why_error
from course_lib.teach.trials.verdict import (
    Event,
    Trial,
    called,
    listed,
    place,
    ranks,
    trial_of,
    wrong,
)
from course_lib.words import _

GONE = re.compile(r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|Socket closed|[Ff]ailed to")
MESSAGES = ("send", "recv", "isend", "irecv")
# Collectives whose sizes may differ between ranks.
UNEVEN = ("all_to_all", "all_to_all_single")
AGAIN = ", step 2"
SHOWN_CALLS = 6


def is_right(check: Checklist, run: Any, exercise: str) -> Trial:
    """Check that the run is a trial of this exercise whose assertions hold on all ranks."""
    trial = trial_of(check, run, exercise)
    came_through(check, trial, run, exercise)
    for requirement in (SERIAL, *REQUIREMENTS[exercise].values()):
        check.that(True, requirement, hint="")
    return trial


def came_through(check: Checklist, trial: Trial, run: Any, exercise: str = "") -> None:
    could_load(check, trial)
    found = wrong(trial)
    most = found[1]["size"] if found else len(trial.ranks)
    _in_one_order(check, trial, most)
    _no_error(check, trial, found)
    if found is not None:
        rank, event = found
        requirement = REQUIREMENTS[exercise].get(event["what"], SERIAL)
        said = explain(trial, rank, event, exercise)
        check.refuse(requirement, f"{place(event)}, rank {rank}: {event['what']}: {said}")
    _not_stuck(check, trial)
    through = {rank for rank, _event in trial.all("end")}
    if missing := set(range(len(trial.ranks))) - through:
        last = trial.cases[-1:]
        why = "".join(_messages(trial, *case) or _unwaited(trial, *case) for case in last)
        why = why or run.error or run.last_lines()
        hint = _("Ranks {missing} ended before. {why}", missing=listed(missing), why=why)
        check.refuse(_("all ranks came to the end"), hint)


def explain(trial: Trial, rank: int, event: Event, exercise: str) -> str:
    what, size, mistake = event["what"], event["size"], event.get("mistake", "")
    results = trial.at(size, event["case"], "result")
    of_ranks = [[one for one in lines if one["what"] == what][-1:] for lines in results]
    if event["case"].endswith(AGAIN) and mistake:
        return _(
            "right in the first step, not in the second, in which x, dy and the weights are others."
            " What is kept from step to step?"
        )
    if not trial.at(size, event["case"], "call")[rank] and (
        idle := _idle(trial, size, event["case"])
    ):
        return idle
    calls = [one for made in trial.at(size, event["case"], "call") for one in made]
    if exercise == "buckets" and any(call.get("thread") for call in calls):
        what, mistake = "one thread", ""
    if what == "waited":
        return _unwaited(trial, size, event["case"])
    if mistake == "shares":
        mistake = shares.mistake_of(event["shares"], event["right"][0], rank, size)
    if told := _hint(exercise, what, mistake) or ("shares" not in event and GENERAL["values"]):
        said = _(told, **_values(event, of_ranks), rank=rank)
    else:
        said = shares.explain(mistake, event["shares"], event["right"][0], rank, size)
    if 0 < len(event.get("wrong", ())) < event.get("of", 0):
        wrong = ", ".join(event["wrong"])
        said = _("{wrong} of {of}: {said}", wrong=wrong, of=event["of"], said=said)
    right = [r for r, found in enumerate(of_ranks) if found and found[0]["ok"]]
    if right == [0] and size > 1 and mistake and what != "the weights":
        return _("only rank 0 has it right, and every rank needs it. Here {said}", said=said)
    return said


def _values(event: Event, of_ranks: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """Return the values for a hint: the event's measurements and what each rank sent."""
    lists = ("collectives", "calls", "wrong", "after", "part")
    told = {name: ", ".join(map(str, one)) if isinstance(one, list) and name in lists else one
            for name, one in event.items()}  # fmt: skip
    sent = {r: found[0].get("sent", 0) for r, found in enumerate(of_ranks) if found}
    by_rank = ", ".join(f"rank {r}: {times:g}" for r, times in sent.items())
    return {"part": event["what"], **told, "by_rank": by_rank}


def _hint(exercise: str, what: str, mistake: str) -> str:
    """Return the hint with the most specific key."""
    table = HINTS[exercise]
    general = GENERAL.get(mistake, "")
    of_any_part = general if mistake in ("dtype", "rounded") else ""
    special = table.get((what, mistake)) or table.get(("", mistake)) or of_any_part
    return special or table.get((what, ""), "") or general


def _unwaited(trial: Trial, size: int, case: str) -> str:
    """Explain a call that a rank started and ended without waiting for; "" if none was found."""
    seen = (trial.at(size, case, kind) for kind in ("call", "waited", "result"))
    for calls, waited, through in zip(*seen, strict=True):
        # An unfinished rank may still be inside its last call.
        if len(waited) < len(calls) - (not through):
            sync = {one["number"] for one in waited if one["sync"]}
            return _nobody_waited([one for n, one in enumerate(calls) if n not in sync])
    return ""


def _lost(trial: Trial, size: int, case: str) -> str:
    """Explain messages that were started but not waited for, so that their receiver hangs."""
    calls = trial.at(size, case, "call")
    for target, made in enumerate(calls):
        source = made[-1].get("peer", -1) if made and made[-1]["call"] == "recv" else -1
        if 0 <= source < size:
            taken = [one for one in made if (one["call"], one["peer"]) == ("recv", source)]
            sent = [
                one for one in calls[source] if (one["call"], one.get("peer")) == ("send", target)
            ]
            if len(sent) >= len(taken):
                return _nobody_waited(sent[len(taken) - 1 :])
    return ""


def _nobody_waited(calls: Sequence[Event]) -> str:
    letter = {name: "i" for name in MESSAGES[:2]}
    some = [one | {"call": letter.get(one["call"], "") + one["call"]} for one in calls]
    names = list(dict.fromkeys(map(called, some)))
    return _(
        "nobody waited for {one_of}{calls}. isend, irecv, and collectives with "
        "async_op=True return a work at once; the numbers have gone, or come, when "
        "work.wait() has returned.",
        one_of=_("one of ") if len(names) > 1 else "", calls=", ".join(names[:SHOWN_CALLS]),
    )  # fmt: skip


def _no_error(check: Checklist, trial: Trial, found: tuple[int, Event] | None) -> None:
    """Refuse an error raised by the learner's code.

    Skip errors that only follow from another mistake: a lost connection, or an error on more ranks
    than a wrong result.
    """
    errors = [one for one in trial.all("error") if not found or one[1]["size"] <= found[1]["size"]]
    own = [one for one in errors if not GONE.search(one[1]["text"])]
    own = own or ([] if found or trial.all("stuck") else errors)
    if not own:
        return
    rank, event = min(own, key=lambda one: one[1]["size"])
    where = _(", line {event}", event=event["line"]) if event.get("line") else ""
    told = _(
        "Rank {rank}{where}: {event}: {event2}",
        rank=rank,
        where=where,
        event=event["kind"],
        event2=in_short(event["text"]),
    )
    if event["kind"] == "SystemExit":
        told = _("Rank {rank}{where} ends the program (sys.exit).", rank=rank, where=where)
    hint = _messages(trial, event["size"], event["case"]) or why_error(event)
    if not hint and event["kind"] == "RuntimeError":
        hint = _unwaited(trial, event["size"], event["case"])
    if not hint and where:
        hint = _("The line is in your file. Print what it works with, on this rank and on others.")
    check.refuse(_("no error on {event}", event=ranks(event["size"])), f"{told}\n{hint}".strip())


def _in_one_order(check: Checklist, trial: Trial, most: int) -> None:
    """Check that all ranks call the same collectives in the same order, on up to `most` ranks."""
    for size, case in trial.cases:
        if size > most:
            break
        first, *others = [
            [call["call"] if call["call"] in UNEVEN else called(call)
             for call in calls if call["call"] not in MESSAGES]
            for calls in trial.at(size, case, "call")
        ]  # fmt: skip
        done = [bool(lines) for lines in trial.at(size, case, "result")]
        for rank, other in enumerate(others, 1):
            together = min(len(first), len(other))
            # A rank that the launcher ended has made fewer calls.
            short = len(first) != len(other) and done[0 if len(first) < len(other) else rank]
            if short or first[:together] != other[:together]:
                check.refuse(
                    _(
                        "all ranks call the same collectives, in the same order, on {size}",
                        size=ranks(size),
                    ),
                    f"{case}\n{_both_orders(first, rank, other)}",
                )


def _both_orders(first: Sequence[str], rank: int, other: Sequence[str]) -> str:
    def shown(calls: Sequence[str], start: int) -> str:
        some = calls[start : start + SHOWN_CALLS]
        more = ["…"] if len(calls) > start + SHOWN_CALLS else []
        return ", ".join([*some, *more]) or _("nothing more")

    pairs = list(zip(first, other, strict=False))
    differs = next((n for n, pair in enumerate(pairs) if pair[0] != pair[1]), len(pairs))
    why = _(
        "A collective is a meeting of all ranks. The first call of one meets the first call of the "
        "others, whatever it is for; if they differ, ranks wait for ever or mix numbers up."
    )
    names = {one.partition("(")[0] for one in (pairs[differs] if differs < len(pairs) else ())}
    if len(names) == 1:
        why = EQUAL_PIECES if re.search("gather|scatter", names.pop()) else ONE_ROOT
    start = max(0, differs - 1)
    return _(
        "From call {number} on:\nrank 0: {first}\nrank {rank}: {other}\n{why}",
        number=start + 1, first=shown(first, start), rank=rank, other=shown(other, start), why=why,
    )  # fmt: skip


def _not_stuck(check: Checklist, trial: Trial) -> None:
    stuck = trial.all("stuck")
    if not stuck:
        return
    size, case = min((event.get("size", 0), event.get("case", "")) for _rank, event in stuck)
    if not size:
        where = _line(stuck[0][1])
        check.refuse(
            _("the file can be imported"), _("It does not come to an end: {stuck}.", stuck=where)
        )
    last = [calls[-1:] for calls in trial.at(size, case, "call")]
    lines = [f"{case}:"]
    for rank, seen in enumerate(trial.at(size, case, "stuck", "left alone")):
        call = called(last[rank][0]) if last[rank] else _("none yet")
        lines.append(
            _(
                "rank {rank} is {value}; last call: {call}",
                rank=rank,
                value=_line(seen[0]) if seen else "through",
                call=call,
            )
        )
    lines.append(_why_stuck(trial, [call for calls in last for call in calls], size, case))
    check.refuse(_("it comes to an end on {size}", size=ranks(size)), "\n".join(lines))


def _line(event: Event) -> str:
    return (
        _("at line {event}", event=event["line"]) if event.get("line") else _("outside of the file")
    )


def _why_stuck(trial: Trial, last: Sequence[Event], size: int, case: str) -> str:
    if told := _messages(trial, size, case) or _idle(trial, size, case):
        return told
    if not last or size == 1:
        return _("Nobody else is there to wait for: look for a loop that never ends.")
    if {call["call"] for call in last} <= {"send"}:
        return _(
            "Every rank waits until its neighbour has taken what it sends, and no neighbour "
            "receives, because it waits in send as well. isend starts sending and goes on: first "
            "recv, then wait()."
        )
    if {call["call"] for call in last} <= {"recv"}:
        nobody = _("Every rank waits for a message that nobody sends.")
        return _unwaited(trial, size, case) or _lost(trial, size, case) or nobody
    if any("root" in call for call in last):
        return ONE_ROOT
    return _("A message needs both ends, and a collective all ranks: which rank is missing in it?")


def _idle(trial: Trial, size: int, case: str) -> str:
    made = trial.at(size, case, "call")
    if all(made) or not any(made):
        return ""
    return _(
        "Rank {rank} has neither sent nor received anything: all take each step together.",
        rank=made.index([]),
    )  # fmt: skip


def _messages(trial: Trial, size: int, case: str) -> str:
    """Explain messages that cannot arrive; "" if all can."""
    calls = trial.at(size, case, "call")
    for rank, made in enumerate(calls):
        for call in made[-2:]:
            if call.get("peer") == rank:
                return _(
                    "Rank {rank} calls {call}: that is itself. On one rank there is no step to "
                    "make, and a round over n ranks has n − 1 steps. Do dist.get_rank() and "
                    "dist.get_world_size() say who it is, and who comes after it?",
                    rank=rank, call=called(call),
                )  # fmt: skip
            if not 0 <= call.get("peer", 0) < size:
                return _(
                    "There is no rank {peer} among {size}. The rank after the last one is rank 0: "
                    "(rank + 1) % size; the one before rank 0 is the last: (rank - 1) % size.",
                    peer=call["peer"], size=size,
                )  # fmt: skip
    for source in range(size):
        for target in range(size):
            sent = [c for c in calls[source] if (c["call"], c.get("peer")) == ("send", target)]
            taken = [c for c in calls[target] if (c["call"], c.get("peer")) == ("recv", source)]
            for one, other in zip(sent, taken, strict=False):
                if (one["bytes"], one["tag"]) != (other["bytes"], other["tag"]):
                    return _(
                        "Rank {source} sends {sent} numbers ({sent_bytes} bytes, tag {sent_tag}), "
                        "and rank {target} receives into {taken} ({taken_bytes} bytes, tag "
                        "{taken_tag}). Both ends name one tag, and the buffer has the length and "
                        "the type of the piece that the other one sends: torch.empty_like(…).",
                        source=source, sent=one["numbers"], sent_bytes=one["bytes"],
                        sent_tag=one["tag"], target=target, taken=other["numbers"],
                        taken_bytes=other["bytes"], taken_tag=other["tag"],
                    )  # fmt: skip
    return ""
