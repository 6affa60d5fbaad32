"""A trial that did not come through: which mistake of the learner's ended it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.loading import could_load
from course_lib.teach.trials.verdict import Event, Trial, listed, ranks, wrong

GONE = re.compile(r"[Cc]onnection (closed|reset|refused)|[Bb]roken pipe|Socket closed|[Ff]ailed to")
SHOWN_CALLS = 6
MESSAGES = ("send", "isend", "recv", "irecv")
EQUAL_PIECES = (
    "reduce_scatter and all_gather take equal pieces, one for each rank. Fill the row up with "
    "zeros until the number of ranks divides it, and leave them out again when it is whole."
)
TOLD_BY_TORCH = (
    (r"[Ee]llipsis", "A gap is still open: put your own code in place of the dots."),
    (
        r"returned an invalid gradient",
        "What backward returns has the shape of what came into forward: where forward gathers, "
        "backward scatters, and the other way round.",
    ),
    (
        r"does not require grad",
        "Nothing leads back from the result: was it detached, made under torch.no_grad(), or is "
        "the weight no torch.nn.Parameter?",
    ),
    (
        r"leaf [Vv]ariable that requires grad",
        "It changes a parameter in place while autograd watches. Change parameters inside "
        "`with torch.no_grad():`, and gradients through `parameter.grad`.",
    ),
    (
        r"unsupported operand type.*NoneType",
        "all_reduce changes its tensor in place and returns None; a function without return gives "
        "None as well.",
    ),
    (
        r"'NoneType' object has no attribute|Invalid type NoneType|got NoneType|NoneType",
        "Something is None. A frozen parameter (requires_grad=False) never gets a gradient: its "
        ".grad stays None, and has to be left out. Nor has one that waits in a bucket since the "
        "step before: what is left is sent in finish().",
    ),
    (
        r"[Ii]nvalid (destination|source) rank|rank .* (out of|not in)",
        "It sends to a rank that does not exist. The rank after the last one is rank 0: "
        "(rank + 1) % size, and the one before rank 0 is the last: (rank - 1) % size.",
    ),
    (
        r"Pair is not connected",
        "It sends to itself, or receives from itself: with one rank there is nobody to send to.",
    ),
    (
        r"index out of range|out of bounds",
        "Are there as many pieces as ranks? tensor_split(n) always makes n pieces, empty ones too; "
        "chunk(n) may make fewer, and split(k) makes pieces of k numbers.",
    ),
    (
        r"must be contiguous|view size is not compatible",
        "The numbers of this tensor do not lie in one row. Those of a copy by .contiguous() do; "
        "its result has to be written back.",
    ),
    (
        r"world.?size times|times (the )?world.?size|same size as|divisible by|equal.{0,20}sizes",
        EQUAL_PIECES,
    ),
    (
        r"mat1 and mat2|inconsistent tensor size",
        "A product of shapes that do not fit. Print both on each rank: is what comes in a slice "
        "already, or still whole? And which dimension of the weight is cut?",
    ),
    (
        r"size of tensor|shape|sizes? mismatch|must match",
        "Two tensors have different shapes. Print their shapes on each rank: pieces differ by one "
        "number where the ranks do not divide the tensor.",
    ),
)  # fmt: skip


def came_through(check: Checklist, trial: Trial, run: Any) -> None:
    """The file could be loaded, and no rank failed, hung or printed without end."""
    could_load(check, trial)
    found = wrong(trial)
    _in_one_order(check, trial, found[1]["size"] if found else len(trial.ranks))
    _failed(check, trial, found[1]["size"] if found else None)
    if found is not None:  # told by the check; what ended badly after it is of no interest
        return
    _stuck(check, trial)
    through = [rank for rank, event in trial.all("end")]
    check.unless(
        len(through) < len(trial.ranks),
        "all ranks came to the end",
        hint=f"Ranks {listed(set(range(len(trial.ranks))) - set(through))} ended before. "
        f"{_no_such_peer_at_last(trial) or run.error or run.tail()}",
    )


def _failed(check: Checklist, trial: Trial, wrong_on: int | None) -> None:
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
    said = event["text"].splitlines()[0] if event["text"] else ""
    told = f"Rank {rank}{where}: {event['kind']}: {said[:300]}"
    if event["kind"] == "SystemExit":
        told = f"Rank {rank}{where} ends the program (sys.exit)."
    hint = next((text for words, text in TOLD_BY_TORCH if re.search(words, event["text"])), "")
    hint = hint or _no_such_peer_at_last(trial)
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


def called(call: Event) -> str:
    """`all_reduce(gradient of last.bias)`, `send(6 numbers, to 1)`."""
    what = f"gradient of {call['of']}" if call.get("of") else ""
    if not what and "numbers" in call:
        what = f"{call['numbers']} numbers"
    if "peer" in call:
        what += f", {'to' if 'send' in call['call'] else 'from'} {call['peer']}"
    return f"{call['call']}({what})"


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
        call = called(last[rank][0]) if last[rank] else "none yet"
        told.append(f"rank {rank} is {_at(seen[0]) if seen else 'through'}; last call: {call}")
    why = _why_stuck([call for calls in last for call in calls], size)
    check.refuse(f"it comes to an end on {ranks(size)}", "\n".join([f"{case}:", *told, why]))


def _no_such_peer_at_last(trial: Trial) -> str:
    """Gloo does not always refuse such a message: it may end the process, without a word."""
    if not trial.cases:
        return ""
    size, case = trial.cases[-1]
    last = [calls[-1] for calls in trial.at(size, case, "call") if calls]
    return _no_such_peer(last, size)


def _no_such_peer(last: Sequence[Event], size: int) -> str:
    for call in last:
        if not 0 <= (call.get("peer") or 0) < size:
            if call["peer"] < 0:
                return (
                    f"There is no rank {call['peer']} among {size}. The rank before rank 0 is the "
                    "last one: (rank - 1) % size."
                )
            return (
                f"There is no rank {call['peer']} among {size}. The rank after the last one is "
                "rank 0: (rank + 1) % size."
            )
    return ""


def _at(event: Event) -> str:
    return f"at line {event['line']}" if event.get("line") else "outside of the file"


def _why_stuck(last: Sequence[Event], size: int) -> str:
    waiting = {call["call"] for call in last}
    if not last:
        return "No rank has sent or received anything: look for a loop that never ends."
    if told := _no_such_peer(last, size):
        return told
    if waiting == {"send"}:
        return (
            "Every rank waits in send until its neighbour receives, and no neighbour does, because "
            "it waits in send as well. isend starts sending and goes on."
        )
    if waiting == {"broadcast"}:
        return (
            "All wait in broadcast: src is the rank whose numbers all take, the same on every rank."
        )
    if waiting <= {"recv", "irecv"}:
        return "Every rank waits for a message that nobody sends."
    return "A message needs both ends, and a collective all ranks: which rank is missing in it?"
