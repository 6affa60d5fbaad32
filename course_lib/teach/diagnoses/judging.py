"""Compares what a learner writes of a blind case with what is in it."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from course_lib import read
from course_lib.lab.mysteries import BlindCase, opened
from course_lib.lab.plain_files import account
from course_lib.teach import kept_lines
from course_lib.teach.answers import in_short, number_in, number_written, text_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.known import known
from course_lib.teach.diagnoses.spoken import wording
from course_lib.teach.diagnoses.wording import claimed, clauses, names_several

FILE = ".course/mysteries.jsonl"
OUT_OF = 10
MANY = 3
MOST_RANKS = 4096
NOBODY = re.compile(
    r"(?:none|no|all|any|every|each|both|nobody|everybody|everyone|n/?a|-|)(?: (?:of|them|the|one|"
    r"single|ranks?|nodes?|in|particular|alone|alike|four|two))*|all \d+(?: ranks| nodes)?"
)
RANK = re.compile(
    r"\W*(?:on |the |global )*(?:ranks?|processe?s?|r)?[\s#:=_-]*(?:no\.? ?)?(\d+)\W*"
)


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
    _rank(check, run, case, kind, rank)
    check.answered(node, "node")
    _node(check, run, case, kind, node)
    _cure(check, kind, check.text(cure, "cure"))


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
    return count > 0 and is_most and not undecided and not apart


def _rivals(right: Kind) -> list[Kind]:
    """All kinds but itself and what follows from it."""
    others = known().items()
    return [one for name, one in others if one.title != right.title and name != right.explains]


def _are_apart(one: Kind, other: Kind, claim: str) -> bool:
    """Two causes in two clauses: "same shapes, different weights"."""
    parts = [(one.is_named_in(part), other.is_named_in(part)) for part in clauses(claim)]
    return not any(all(counts) for counts in parts)


def _most(claim: str) -> int:
    return max(kind.is_named_in(claim) for kind in known().values())


def _why_not(right: Kind, said: str) -> str:
    claim = claimed(said)
    most = _most(claim)
    taken = [kind for kind in known().values() if kind.is_named_in(claim) == most]
    if not most and any(kind.is_named_in(said) for kind in known().values()):
        return f"That tells what it is not. What is it? {right.look}"
    if not most:
        return (
            "None of its words is known here. Say it as you would to somebody who keeps the "
            f"cluster running: what broke, in a few words. {right.look}"
        )
    if right in taken:
        return f"That names several causes. Which one does the evidence show? {right.look}"
    other = taken[0]
    return f"If that were so ({other.title}), {other.looks}. Is that what you see? {right.look}"


def _rank(check: Checklist, run: Any, case: BlindCase, kind: Kind, rank: Any) -> None:
    said = _numbers_in(rank)
    nobody = rank is None or _is_nobody(rank) or said == set(range(run.recipe.devices))
    if kind.one == "none":
        check.that(nobody, "no single rank has it", hint="It is not one rank alone. Give None.")
        return
    check.unless(nobody, "the rank", hint="It began at one place. Which rank is unlike the others?")
    wanted, shown = _ranks(run, case, kind), _shown(rank)
    check.that(
        bool(said) and said <= wanted,
        f"rank {shown}",
        hint=f"Rank {shown} only met the consequences. Who is the first that the evidence names?",
    )


def _in_english(given: Any) -> str | None:
    text = text_in(given)
    return None if text is None else wording().translated(text)


def _is_nobody(said: Any) -> bool:
    text = _in_english(said)
    return text is not None and NOBODY.fullmatch(text.strip().strip(".").lower()) is not None


def _numbers_in(rank: Any) -> set[float]:
    """Of one rank, or of several: "rank 2", [2, 3], "2 and 3"."""
    text = _in_english(rank)
    if text is not None:
        found = [RANK.fullmatch(part) for part in re.split(r",| and |&|\+", text.strip().lower())]
        return {float(one[1]) for one in found if one} if all(found) else set()
    number = number_written(rank)
    if number is not None:
        return {number}
    try:
        numbers = [number_in(one) for one in islice(rank, MOST_RANKS)]
    except Exception:  # nothing that has several
        return set()
    return {one for one in numbers if one is not None} if None not in numbers else set()


def _shown(given: Any) -> str:
    text = text_in(given)
    return text if text is not None else in_short(given)


def _ranks(run: Any, case: BlindCase, kind: Kind) -> set[int]:
    if kind.one == "first":
        return {0}
    if kind.one == "rank":
        return {case.rank}
    on_each = run.recipe.gpus_per_node
    first = case.rank // on_each * on_each
    return set(range(first, first + on_each))


def _node(check: Checklist, run: Any, case: BlindCase, kind: Kind, node: Any) -> None:
    said = "" if node is None else _shown(node)
    names = [str(name) for name in read.expand_hosts(run.status.nodes)] or ["node1", "node2"]
    if kind.one == "none":
        nobody = node is None or _is_nobody(node) or _named(said, names) == {*map(_bare, names)}
        check.that(nobody, "no single node has it", hint="All nodes have it. Give None.")
        return
    rank = 0 if kind.one == "first" else case.rank
    wanted = names[min(rank // run.recipe.gpus_per_node, len(names) - 1)].lower()
    check.that(
        _named(said, names) == {_bare(wanted)},
        f"node {said}",
        hint=f"The nodes are {', '.join(names)}, and ranks fill them in this order, "
        f"{run.recipe.gpus_per_node} on each. On which is your rank?",
    )


def _bare(name: str) -> str:
    """As people write it: without the domain, with a space or a hyphen somewhere."""
    return re.sub(r"[\s_-]", "", name.split(".", maxsplit=1)[0].lower())


def _named(said: str, names: list[str]) -> set[str]:
    """Which nodes a text names; none where it denies one."""
    said = wording().translated(said)
    if re.search(r"\b(?:not|no|but)\b", said, re.IGNORECASE):
        return set()
    text = re.sub(r"[\s_-]", "", said.lower())
    return {_bare(name) for name in names if re.search(rf"{re.escape(_bare(name))}(?!\d)", text)}


def _cure(check: Checklist, kind: Kind, said: str) -> None:
    check.that(
        kind.is_cured_by(claimed(said)),
        f"the cure: {said}",
        hint=f"Would that keep it from coming back? It was that {kind.title}: what makes that "
        "impossible, or harmless?",
    )


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
