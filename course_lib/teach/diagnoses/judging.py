"""Compares what a learner writes of a blind case with what is in it."""

from __future__ import annotations

from typing import Any

from course_lib.lab.mysteries import BlindCase, opened
from course_lib.lab.plain_files import account
from course_lib.teach import kept_lines
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses.cures import is_cured, why_no_cure
from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.known import known, thinkable
from course_lib.teach.diagnoses.places import judge_node, judge_rank
from course_lib.teach.diagnoses.wording import cause_in, claimed, clauses, is_bare, names_several

FILE = ".course/mysteries.jsonl"
OUT_OF = 10
MANY = 3


def judge(check: Checklist, run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """Cause, rank, node and cure, in this order."""
    check.answered(run, "the run")
    case = case_in(run)
    if case is None:
        check.refuse(
            "it is a blind case", "This is none. `lab.mystery(3)` submits the one of seed 3."
        )
    check.ended(run)
    kind = known()[case.kind]
    _cause(check, kind, check.text(cause, "cause"))
    check.answered(rank, "rank")
    judge_rank(check, run, case, kind, rank)
    check.answered(node, "node")
    judge_node(check, run, case, kind, node)
    _cure(check, case.kind, check.text(cure, "cure"))


def case_in(run: Any) -> BlindCase | None:
    try:
        return opened(run.recipe)
    except Exception:  # whatever was handed in for a run
        return None


def _cause(check: Checklist, right: Kind, said: str) -> None:
    check.that(is_meant(right, said), f"the cause: {said}", hint=_why_not(right, said))


def is_meant(right: Kind, said: str) -> bool:
    """Its words are in there, no other kind's more often, and not those of many as often."""
    claim = claimed(said)
    count = right.is_named_in(claim)
    named = [(kind, kind.is_named_in(claim)) for kind in _rivals(right)]
    others = [kind for kind, times in named if times == count]
    undecided = len(others) >= MANY or (others and names_several(claim))
    apart = any(_are_apart(right, other, claim) for other in others)
    is_most = all(count >= times for _, times in named)
    is_sure = count > 0 and is_most and not undecided and not apart
    return is_sure and not is_bare(claim) and _is_cause(right, others, claim)


def _rivals(right: Kind) -> list[Kind]:
    """All kinds but itself and what follows from it."""
    others = thinkable().items()
    return [one for name, one in others if one.title != right.title and name != right.explains]


def _are_apart(one: Kind, other: Kind, claim: str) -> bool:
    """Two causes in two clauses: "same shapes, different weights"."""
    parts = [(one.is_named_in(part), other.is_named_in(part)) for part in clauses(claim)]
    return not any(all(counts) for counts in parts)


def _is_cause(right: Kind, others: list[Kind], claim: str) -> bool:
    """Not the consequence of another: "its samples are corrupt, so its weights drift away"."""
    cause = cause_in(claim)
    return right.is_named_in(cause) > 0 or not any(other.is_named_in(cause) for other in others)


def _suspects(claim: str) -> list[Kind]:
    """The kinds that are named most often; of several, those in what is said to be the cause."""
    counts = [(kind, kind.is_named_in(claim)) for kind in thinkable().values()]
    most = max(times for _, times in counts)
    suspects = [kind for kind, times in counts if times == most > 0]
    cause = cause_in(claim)
    return [kind for kind in suspects if kind.is_named_in(cause)] or suspects


def _why_not(right: Kind, said: str) -> str:
    claim = claimed(said)
    taken = _suspects(claim)
    if not taken and any(kind.is_named_in(said) for kind in thinkable().values()):
        return f"That tells what it is not. What is it? {right.look}"
    if taken and is_bare(claim):
        return f"That names a thing, and not what is wrong with it. What is? {right.look}"
    if not taken:
        return (
            "None of its words is known here. Say it as you would to somebody who keeps the "
            f"cluster running: what broke, in a few words. {right.look}"
        )
    if any(one.title == right.title for one in taken):
        return f"That names several causes. Which one does the evidence show? {right.look}"
    other = taken[0]
    return f"If that were so ({other.title}), {other.looks}. Is that what you see? {right.look}"


def _cure(check: Checklist, name: str, said: str) -> None:
    check.that(is_cured(name, said), f"the cure: {said}", hint=why_no_cure(name, said))


def keep(workspace: Any, seed: str, solved: bool) -> None:
    entry = {"learner": account(), "case": seed, "solved": solved}
    kept_lines.append(workspace / FILE, entry, "the score")


def score(workspace: Any) -> str:
    """Over the first ten cases that were tried: how many were told right the first time."""
    tries: dict[str, list[bool]] = {}
    for entry in kept_lines.entries(workspace / FILE):
        if entry.get("learner") == account():
            tries.setdefault(str(entry.get("case")), []).append(entry.get("solved") is True)
    cases = list(tries.values())[:OUT_OF]
    at_once, solved = sum(all(t[:1]) for t in cases), sum(any(t) for t in cases)
    return (
        f"{solved} of {len(cases)} blind cases solved, {at_once} of them at the first try "
        f"(a full score is {OUT_OF})"
    )
