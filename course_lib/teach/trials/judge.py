"""Find the first mistake of a learner's function on real ranks, and explain it.

Each rank writes its own events. The report names the first mistake, on the fewest ranks. It
leaves out consequences, such as a rank that waits because another rank failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from course_lib.teach.checklist import SENTENCE_END, Checklist
from course_lib.teach.trials.hints import GENERAL, HINTS, REQUIREMENTS, SERIAL
from course_lib.teach.trials.torch_errors import EQUAL_PIECES, OWN_GROUP, in_short, why_error
from course_lib.teach.trials.verdict import (
    GONE,
    Event,
    Trial,
    called,
    listed,
    place,
    ranks,
    ranks_of,
    trial_of,
    wrong,
)
from course_lib.words import N_, _

MESSAGES = ("send", "recv", "isend", "irecv")
TOO_EARLY = N_(
    "The file is imported before the ranks have met: ask for rank and size inside "
    "the class or function. The trial makes the groups, of 1, 2, 3 and 4 ranks."
)
OWN_WORK = N_("This is the course's solution. Replace it with your own lines.")
# Collectives whose sizes may differ between ranks.
UNEVEN = ("all_to_all", "all_to_all_single")
AGAIN = ", step 2"
# Tolerance of the shares of ranks in a result.
NEAR = 1e-3
Row = Sequence[float]
SHOWN_CALLS = 6


def tried(exercise: str, trial: str) -> Callable[[Any], None]:
    """Return the check of an exercise that requires the assertions of a trial and nothing else."""

    def trial_holds(run: Any) -> None:
        with Checklist(exercise) as check:
            check_trial(check, trial_of(check, run, trial), run, trial)
            for requirement in _requirements(trial).values():
                check.that(True, requirement, hint="")

    return trial_holds


def _requirements(exercise: str) -> dict[str, str]:
    """Return what the assertions of a trial require; "" stands for those that are not listed."""
    return {"": SERIAL, **REQUIREMENTS.get(exercise, {})}


def check_trial(check: Checklist, trial: Trial, run: Any, exercise: str = "") -> None:
    _could_load(check, trial)
    found = wrong(trial)
    most = found[1]["size"] if found else len(trial.ranks)
    _in_one_order(check, trial, most)
    _no_error(check, trial, found)
    if found is not None:
        rank, event = found
        wanted = _requirements(exercise)
        requirement = wanted.get(event["what"], wanted[""])
        where = f"{place(event)}, rank {rank}: {event['what']}: "
        told = explain(trial, rank, event, exercise)
        check.refuse(requirement, told, where, f"{event['what']}: {event.get('mistake', '')}")
    _not_stuck(check, trial)
    through = {rank for rank, _event in trial.all("end")}
    if missing := set(range(len(trial.ranks))) - through:
        last = trial.cases[-1:]
        why = "".join(_messages(trial, *case) or _unwaited(trial, *case) for case in last)
        why = why or run.error or run.last_lines()
        made = [one[-1] for case in last for one in trial.at(*case, "call") if one]
        call = called(made[0]) if made else _("none yet")
        where = _(
            "Ranks {missing} ended too early. The last call: {call}. ",
            missing=listed(missing),
            call=call,
        )
        check.refuse(_("all ranks reached the end"), why, where)


def _could_load(check: Checklist, trial: Trial) -> None:
    """Tell why the ranks could not load the learner's file."""
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


def explain(trial: Trial, rank: int, event: Event, exercise: str) -> str:
    what, size, mistake = event["what"], event["size"], event.get("mistake", "")
    results = trial.at(size, event["case"], "result")
    of_ranks = [[one for one in lines if one["what"] == what][-1:] for lines in results]
    if event["case"].endswith(AGAIN) and mistake:
        return _(
            "right in the first step but not in the second, which has a different x, dy and "
            "weights. What is kept from step to step?"
        )
    made = trial.at(size, event["case"], "call")
    if not made[rank] and any(made):
        return _idle(rank)
    calls = [one for of_rank in made for one in of_rank]
    if what == "waited":
        return _unwaited(trial, size, event["case"])
    factor, counted = 0.0, ""
    if mistake == "shares":
        mistake, factor = _by_shares(event["shares"], event["right"][0], rank, size)
        everywhere = [one.get("shares") for found in of_ranks for one in found]
        is_own = _hint(exercise, what, mistake) == GENERAL["own"]
        if is_own and everywhere == [event["shares"]] * size:
            mistake = "one for all"
        if mistake == "values" or not _hint(exercise, what, mistake):
            counted = _counted(event["shares"], event["right"][0][:size])
    told = _hint(exercise, what, mistake) or GENERAL["values"]
    if size == 1 and mistake == "values":
        told = HINTS[exercise].get((what, "one rank"), told)
    if told == GENERAL["values"] and size == 1 and "first" in event:
        told = GENERAL["alone"]
    shown = ", ".join(map(called, made[rank][:SHOWN_CALLS])) or _("nothing")
    said = _(told, **_values(event, of_ranks), rank=rank, factor=factor, made=shown)
    if counted:
        said = " ".join([counted, *SENTENCE_END.split(said, maxsplit=1)[1:]])
    if 0 < len(event.get("wrong", ())) < event.get("of", 0):
        wrong = ", ".join(event["wrong"])
        said = _("{wrong} of {of}: {said}", wrong=wrong, of=event["of"], said=said)
    right = [r for r, found in enumerate(of_ranks) if found and found[0]["ok"]]
    if right == [0] and mistake not in ("", "another piece") and what != "the weights":
        for call in {"reduce", "gather"} & {one["call"] for one in calls}:
            said = _(
                "dist.{call} leaves the result on one rank, and dist.all_{call} leaves it on all "
                "ranks.",
                call=call,
            )
        return _(
            "only rank 0 has the right result, but every rank needs it. On this rank, {said}",
            said=said,
        )
    return said


def _by_shares(table: Sequence[Row], right: Row, rank: int, size: int) -> tuple[str, float]:
    """Return the mistake that the ranks' shares in a result reveal, and its factor."""
    first = table[0]
    *of_pieces, wanted = (
        [r for r, share in enumerate(row[:size]) if abs(share) > NEAR] for row in (*table, right)
    )
    if any(not _alike(row, first) for row in table):
        is_own = of_pieces == [[piece] for piece in range(size)]
        # A rank whose numbers count twice has added them to themselves.
        is_own = is_own and max(map(max, table)) < 1 + NEAR
        is_lone = of_pieces == [wanted * (piece == rank) for piece in range(size)]
        return "own pieces" if is_own else "one piece" if is_lone else "values", 0.0
    there = of_pieces[0]
    if not any(abs(share) > NEAR for share in first):
        return "zero", 0.0
    if there == [rank] != wanted:
        return "own", 0.0
    if len(there) == 1 and wanted == [rank] != there:
        return "another piece", there[0]
    at = next((n for n, share in enumerate(right) if abs(share) > NEAR), 0)
    factor = first[at] / right[at] if right[at] else 0.0
    is_multiple = factor and _alike(first, [factor * share for share in right])
    # Other factors have nothing to do with the number of ranks.
    by_ranks = any(abs(factor / size**power - 1) < NEAR for power in (-2, -1, 1, 2))
    return ("times", factor) if is_multiple and by_ranks else ("values", 0.0)


def _alike(one: Row, other: Row) -> bool:
    return all(abs(a - b) < NEAR for a, b in zip(one, other, strict=True))


def _counted(table: Sequence[Row], right: Row) -> str:
    """Return how often the first wrong piece counts a rank; "" if it counts each rank once."""
    for piece, row in enumerate(table):
        for rank, (share, wanted) in enumerate(zip(row, right, strict=False)):
            if wanted and abs(share / wanted - 1) > NEAR:
                where = _("in piece {piece}, ", piece=piece) if len(table) > 1 else ""
                return _(
                    "{where}the numbers of rank {rank} are counted {times:.3g} times, not once.",
                    where=where, rank=rank, times=share / wanted + 0.0,
                )  # fmt: skip
    return ""


def _values(event: Event, of_ranks: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """Return the values for a hint: the event's measurements and what each rank sent."""
    lists = ("collectives", "calls", "wrong", "after", "part", "accused")
    told = {name: ", ".join(map(str, one)) if isinstance(one, list) and name in lists else one
            for name, one in event.items()}  # fmt: skip
    sent = {r: found[0].get("sent", 0) for r, found in enumerate(of_ranks) if found}
    by_rank = ", ".join(f"rank {r}: {times:g}" for r, times in sent.items())
    return {"part": event["what"], **told, "by_rank": by_rank}


def _hint(exercise: str, what: str, mistake: str) -> str:
    """Return the hint with the most specific key."""
    table = HINTS[exercise]
    general = GENERAL.get(mistake, "")
    of_any_part = general if mistake in ("none", "dtype", "rounded") else ""
    special = table.get((what, mistake)) or table.get(("", mistake)) or of_any_part
    return special or table.get((what, ""), "") or general


def _unwaited(trial: Trial, size: int, case: str) -> str:
    """Explain a call for which a rank did not wait; "" if none was found."""
    seen = (trial.at(size, case, kind) for kind in ("call", "waited", "result"))
    for calls, waited, through in zip(*seen, strict=True):
        # An unfinished rank may still be inside its last call.
        if len(waited) < len(calls) - (not through):
            sync = {one["number"] for one in waited if one["sync"]}
            names = dict.fromkeys(called(one) for n, one in enumerate(calls) if n not in sync)
            return _(
                "this rank did not wait for one of these calls: {calls}. isend, irecv, and "
                "collectives with async_op=True return a work at once. The numbers are there "
                "after work.wait().",
                calls=", ".join([*names][:SHOWN_CALLS]),
            )  # fmt: skip
    return ""


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
    told = _("Rank {rank}{where}: {event}: {event2}", rank=rank,
             where=where, event=event["kind"], event2=in_short(event["text"]))  # fmt: skip
    if event["kind"] == "SystemExit":
        told = _("Rank {rank}{where} ends the program (sys.exit).", rank=rank, where=where)
    hint = _messages(trial, event["size"], event["case"]) or why_error(event)
    if not hint and event["kind"] == "RuntimeError":
        hint = _unwaited(trial, event["size"], event["case"])
    if not hint and where:
        hint = _("The line is in your file. Print its variables, on this rank and on other ranks.")
    check.refuse(_("no error on {event}", event=ranks(event["size"])), hint, f"{told}\n")


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
                wanted = _("all ranks call the same collectives, in the same order, on {size}",
                           size=ranks(size))  # fmt: skip
                check.refuse(wanted, *_both_orders(case, first, rank, other))


def _both_orders(case: str, first: list[str], rank: int, other: list[str]) -> tuple[str, str]:
    """Return why ranks have to agree, and the calls of two ranks that do not."""
    pairs = zip(first, other, strict=False)
    same = next(
        (n for n, pair in enumerate(pairs) if pair[0] != pair[1]), min(map(len, (first, other)))
    )
    shown = [", ".join(calls[same:][:SHOWN_CALLS]) or _("nothing more") for calls in (first, other)]
    why = _(
        "Collectives match by their order on each rank, not by their purpose. If the order "
        "differs, ranks wait forever or mix numbers up."
    )
    names = {calls[same].partition("(")[0] for calls in (first, other) if len(calls) > same}
    if len(names) == 1 and re.search("gather|scatter", "".join(names)):
        why = EQUAL_PIECES
    if names in ({"broadcast"}, {"reduce"}) and same < min(len(first), len(other)):
        why = _("All ranks must name the same src or dst, and give equally many numbers.")
    where = _(
        "{case}\nFrom call {number} on:\nrank 0: {first}\nrank {rank}: {other}\n",
        case=case, number=same + 1, first=shown[0], rank=rank, other=shown[1],
    )  # fmt: skip
    return why, where


def _not_stuck(check: Checklist, trial: Trial) -> None:
    stuck = trial.all("stuck")
    if not stuck:
        return
    size, case = min((event.get("size", 0), event.get("case", "")) for _rank, event in stuck)
    if not size:
        where = _line(stuck[0][1])
        check.refuse(
            _("the file can be imported"), _("The program does not end: {stuck}.", stuck=where)
        )
    last = [calls[-1:] for calls in trial.at(size, case, "call")]
    lines = [f"{case}:"]
    for rank, seen in enumerate(trial.at(size, case, "stuck", "left alone")):
        call = called(last[rank][0]) if last[rank] else _("none yet")
        at = _line(seen[0]) if seen else "through"
        lines.append(_("rank {rank} is {value}; last call: {call}", rank=rank, value=at, call=call))
    why = _why_stuck(trial, [call for calls in last for call in calls], size, case)
    check.refuse(_("the program ends on {size}", size=ranks(size)), why, "\n".join([*lines, ""]))


def _line(event: Event) -> str:
    return _("at line {event}", event=event["line"]) if event.get("line") else _("outside the file")


def _why_stuck(trial: Trial, last: Sequence[Event], size: int, case: str) -> str:
    made, through = trial.at(size, case, "call"), trial.at(size, case, "result")
    if told := _messages(trial, size, case):
        return told
    if any(made) and not all(made):
        return _idle(made.index([]))
    if not last or size == 1:
        return _("There is no other rank to wait for, so look for a loop that never ends.")
    told = _unwaited(trial, size, case) if {one["call"] for one in last} == {"recv"} else ""
    told = told or _all_wait(made, through)
    return told or _one_sided(made, through) or _(
        "A message needs both ends, and a collective needs all ranks. Which rank is missing? "
        "Was every isend waited for, by wait()?"
    )  # fmt: skip


def _all_wait(made: Sequence[Sequence[Event]], through: Sequence[Sequence[Event]]) -> str:
    """Explain ranks that all wait in send, or all in recv; "" if they do not."""
    calls = {calls[-1]["call"] for calls in made}
    if any(through) or calls not in ({"send"}, {"recv"}):
        return ""
    return _(
        "{ranks} wait in {call}, and each of them waits for another. Start a message with isend, "
        "then call recv, then wait().", ranks=ranks_of(range(len(made))), call=calls.pop(),
    )  # fmt: skip


def _one_sided(made: Sequence[Sequence[Event]], through: Sequence[Sequence[Event]]) -> str:
    """Explain a message to or from a rank that has ended without it; "" if there is none."""
    for source, target in permutations(range(len(made)), 2):
        sent, taken = _between(made, source, target)
        missing = len(sent) - len(taken)
        if (missing > 0 and through[target]) or (missing < 0 and through[source]):
            return _(
                "Messages from rank {source} to rank {target}: {sent} sent, {taken} received. Each "
                "one needs both.",
                source=source, target=target, sent=len(sent), taken=len(taken),
            )  # fmt: skip
    return ""


def _between(
    made: Sequence[Sequence[Event]], source: int, target: int
) -> tuple[list[Event], list[Event]]:
    """Return the sends from one rank to another, and the receives that they meet."""
    sent = [c for c in made[source] if (c["call"], c.get("peer")) == ("send", target)]
    return sent, [c for c in made[target] if (c["call"], c.get("peer")) == ("recv", source)]


def _idle(rank: int) -> str:
    return _("Rank {rank} has neither sent nor received anything, but other ranks have.", rank=rank)


def _messages(trial: Trial, size: int, case: str) -> str:
    """Explain messages that cannot arrive; "" if all can."""
    calls = trial.at(size, case, "call")
    for rank, made in enumerate(calls):
        for call in made[-2:]:
            if call.get("peer", -1) == rank or not 0 <= call.get("peer", 0) < size:
                return _(
                    "Rank {rank} of {size} calls {call}. Ranks count from 0 to size - 1, and in a "
                    "ring (rank + 1) % size is the next. On one rank there is nothing to send.",
                    rank=rank, size=size, call=called(call),
                )  # fmt: skip
    for source, target in permutations(range(size), 2):
        for one, other in zip(*_between(calls, source, target), strict=False):
            if (one["bytes"], one["tag"]) != (other["bytes"], other["tag"]):
                return _(
                    "Rank {source} sends {sent} bytes (tag {sent_tag}), and rank {target} receives "
                    "{taken} bytes (tag {taken_tag}). Make the buffer by torch.empty_like.",
                    source=source, sent=one["bytes"], sent_tag=one["tag"], target=target,
                    taken=other["bytes"], taken_tag=other["tag"],
                )  # fmt: skip
    return ""
