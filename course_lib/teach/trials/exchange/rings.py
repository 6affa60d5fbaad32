"""A trial of a ring: which mistake made its sum wrong, and what each rank sent."""

from __future__ import annotations

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials import verdict
from course_lib.teach.trials.ends import SENDS, never_waited_for
from course_lib.teach.trials.sharding.parts_of_ranks import rounded
from course_lib.teach.trials.verdict import Event, Trial

NEAR = 1e-3
ROUNDING = 0.05
"""Pieces differ by one number where the ranks do not divide a tensor."""
Piece = list[float]
"""How often each rank's numbers are in it."""
OTHER_PIECES = (
    "it holds no sum of the ranks' numbers at their places: numbers of one piece came to another. "
    "What a rank takes in a step has to be the piece that its neighbour sends in that step; the "
    "direction of the ring and the order of the pieces belong together."
)


def why_ring(trial: Trial, rank: int, event: Event) -> str:
    if event["slip"] == "shape":
        return f"the result has shape {event['has']}, the tensor had {event['wanted']}."
    if event["slip"] == "dtype":
        return f"the result is {event['has']}; the tensor was float64, and is to stay so."
    if told := never_waited_for(trial, event["size"], event["case"]):
        return told
    if event["slip"] == "unchanged":
        return _why_unchanged(trial, rank, event)
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the sum. Every rank needs it."
    return rounded(event) or _why_rest(event) or _why_cut(trial, rank, event) or _why_pieces(event)


def _why_unchanged(trial: Trial, rank: int, event: Event) -> str:
    calls = trial.at(event["size"], event["case"], "call")
    if not calls[rank] and any(calls):
        return (
            "the tensor is what it was, and this rank has neither sent nor received anything. All "
            "ranks take each step together."
        )
    return (
        "the tensor is what it was. Changing it in place means tensor += … or "
        "tensor.copy_(…); `tensor = …` gives another tensor the name, and what was summed in a "
        "copy has to be copied back."
    )


def _why_rest(event: Event) -> str:
    """Numbers at the end that no piece held."""
    places, numbers = event.get("rest", []), event["numbers"]
    if not places or places != list(range(numbers - len(places), numbers)):
        return ""
    if len(places) >= numbers // event["size"] or len(places) >= event["size"]:
        return ""
    return (
        f"the last {len(places)} of {numbers} still hold this rank's own: {event['size']} ranks do "
        f"not divide {numbers}, and the rest is in no piece. tensor_split(n) makes pieces that "
        "hold all."
    )


def _why_cut(trial: Trial, rank: int, event: Event) -> str:
    """Pieces that are more or fewer than ranks, by what was sent."""
    size, numbers = event["size"], event["numbers"]
    sent = {call["numbers"] for call in trial.at(size, event["case"], "call")[rank]
            if call["call"] in SENDS}  # fmt: skip
    others = sorted(sent - {numbers // size, -(-numbers // size), numbers})
    if not others:
        return ""
    return (
        f"a piece of {others[-1]} numbers was sent. {numbers} numbers in {size} pieces, as many as "
        f"there are ranks, are {numbers / size:g} each."
    )


def _why_pieces(event: Event) -> str:
    size, held = event["size"], dict(enumerate(event["shares"]))
    known: dict[int, Piece] = {n: piece for n, piece in held.items() if piece}
    shares = {round(share, 3) for piece in known.values() for share in piece}
    if len(known) < size:
        return OTHER_PIECES + _table(
            {n: piece for n, piece in known.items() if not _is_whole(piece)}
        )
    if shares == {round(1 / size, 3)}:
        return "this is the mean. All-reduce leaves the sum; who wants a mean divides afterwards."
    if len(shares) == 1:
        times = shares.pop() + 0
        return f"every rank's numbers are in it {times:g} times instead of once."
    return _why_shares(known) + _table(known)


def _why_shares(known: dict[int, Piece]) -> str:
    ones = [share for piece in known.values() for share in piece if abs(share) > NEAR]
    if len(ones) == len(known) and any(share > 1 + NEAR for share in ones):
        return (
            "each piece holds one rank's numbers alone, some twice: what arrived was written over "
            "the piece, and then added to itself. It needs room of its own: torch.empty_like(…)."
        )
    if len(ones) == len(known):
        return (
            "no piece is a sum: each holds one rank's numbers alone. What arrives in the first "
            "round is to be added to the piece in place, by `+=`; `piece = piece + …` makes "
            "another tensor."
        )
    if any(NEAR < share % 1 < 1 - NEAR for share in ones):
        return "some numbers were divided on the way. All-reduce sums what each rank has."
    if any(share > 1 + NEAR for share in ones):
        return "numbers were added more than once: in the second round a piece replaces another."
    if sum(_is_whole(piece) for piece in known.values()) == 1:
        return "one piece is whole: the first round is right, the second does not hand it on."
    return "ranks are missing: which piece is passed on in which step?"


def _is_whole(piece: Piece) -> bool:
    return all(abs(share - 1) < NEAR for share in piece)


def _table(known: dict[int, Piece]) -> str:
    lines = [
        f"  piece {n}: " + ", ".join(f"{share + 0:g} × rank {r}" for r, share in enumerate(piece))
        for n, piece in known.items()
    ]
    return "\n".join(["", *lines])


def sends_as_a_ring(check: Checklist, trial: Trial) -> None:
    results = [event for _, event in trial.all("result")]
    used = sorted({name for event in results for name in event["travelled"]["collectives"]})
    check.that(
        not used,
        "sends and receives did all the work",
        hint="It calls barrier. A ring needs no meeting of all: each step waits for its neighbours."
        if used == ["barrier"] else
        f"It calls {', '.join(used)}, which is what it is to be written out.",
    )  # fmt: skip
    size = max(event["size"] for event in results)
    last = [event for event in results if event["size"] == size][-1]["case"]
    sent = {rank: lines[-1]["travelled"]["sent"]
            for rank, lines in enumerate(trial.at(size, last, "result"))}  # fmt: skip
    wanted = 2 * (size - 1) / size
    messages = trial.at(size, last, "result")[0][-1]["travelled"]["messages"]
    check.that(
        all(abs(times - wanted) <= ROUNDING for times in sent.values()),
        f"each rank sent 2 (n − 1) / n of the tensor: {wanted:g} times on {size} ranks",
        hint=_why_sent(sent, messages, wanted),
    )


def _why_sent(sent: dict[int, float], messages: int, wanted: float) -> str:
    size, (least, most) = len(sent), (min(sent.values()), max(sent.values()))
    if most - least > ROUNDING:
        table = ", ".join(f"rank {rank}: {times:g}" for rank, times in sent.items())
        return (
            f"On {size} ranks they sent so many times the tensor: {table}. In a ring all do the "
            f"same, {wanted:g} each; who sends more keeps the others waiting."
        )
    if most > wanted:
        return (
            f"On {size} ranks each sent {most:g} times the tensor, in {messages} messages. A ring "
            "cuts the tensor into as many pieces as there are ranks, and sends one piece a step."
        )
    return (
        f"On {size} ranks each sent {most:g} times the tensor by sends that were seen, and no "
        f"sum can be had for less than {wanted:g}: the rest came another way."
    )
