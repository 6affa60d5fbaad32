"""Compares what a learner writes of a blind case with what is in it."""

from __future__ import annotations

from typing import Any

from course_lib import read
from course_lib.lab.mysteries import BlindCase, opened
from course_lib.lab.plain_files import account
from course_lib.teach import kept_lines
from course_lib.teach.answers import number_in, text_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.known import known

FILE = ".course/mysteries.jsonl"
OUT_OF = 10
NOBODY = {"", "none", "all", "any", "every", "everyone", "-", "no", "no single one"}


def judge(check: Checklist, run: Any, cause: Any, rank: Any, node: Any, cure: Any) -> None:
    """Cause, rank, node and cure, in this order."""
    check.answered(run, "the run")
    case = opened(run.recipe) if hasattr(run, "recipe") else None
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


def _cause(check: Checklist, right: Kind, said: str) -> None:
    check.that(is_meant(right, said), f"the cause: {said}", hint=_why_not(right, said))


def is_meant(right: Kind, said: str) -> bool:
    """Its words are in there, and no other kind's more often."""
    counts = {kind.title: kind.is_named_in(said) for kind in known().values()}
    count = counts.pop(right.title)
    return count > 0 and count >= max(counts.values())


def _why_not(right: Kind, said: str) -> str:
    counts = {name: kind.is_named_in(said) for name, kind in known().items()}
    taken = max(counts, key=lambda name: counts[name])
    if not counts[taken]:
        return (
            "None of its words is known here. Say it as you would to somebody who keeps the "
            f"cluster running: what broke, in a few words. {right.look}"
        )
    other = known()[taken]
    return f"If that were so ({other.title}), {other.looks}. Is that what you see? {right.look}"


def _rank(check: Checklist, run: Any, case: BlindCase, kind: Kind, rank: Any) -> None:
    nobody = rank is None or (text_in(rank) or "x").strip().lower() in NOBODY
    number = None if nobody else number_in(rank)
    if isinstance(rank, str) and rank.strip().lower().removeprefix("rank").strip().isdecimal():
        number = float(rank.strip().lower().removeprefix("rank"))
    if kind.one == "none":
        check.that(nobody, "no single rank has it", hint="It is not one rank alone. Give None.")
        return
    check.unless(nobody, "the rank", hint="It began at one place. Which rank is unlike the others?")
    wanted = _ranks(run, case, kind)
    check.that(
        number in wanted,
        f"rank {rank}",
        hint=f"Rank {rank} only met the consequences. Who is the first that the evidence names?",
    )


def _ranks(run: Any, case: BlindCase, kind: Kind) -> set[int]:
    if kind.one == "first":
        return {0}
    if kind.one == "rank":
        return {case.rank}
    on_each = run.recipe.gpus_per_node
    first = case.rank // on_each * on_each
    return set(range(first, first + on_each))


def _node(check: Checklist, run: Any, case: BlindCase, kind: Kind, node: Any) -> None:
    said = "" if node is None else str(text_in(node) or node).strip().lower()
    if kind.one == "none":
        check.that(said in NOBODY, "no single node has it", hint="All nodes have it. Give None.")
        return
    names = [str(name) for name in read.expand_hosts(run.status.nodes)] or ["node1", "node2"]
    rank = 0 if kind.one == "first" else case.rank
    wanted = names[min(rank // run.recipe.gpus_per_node, len(names) - 1)].lower()
    check.that(
        said == wanted or said.split(".")[0] == wanted.split(".")[0],
        f"node {node}",
        hint=f"The nodes are {', '.join(names)}, and ranks fill them in this order, "
        f"{run.recipe.gpus_per_node} on each. On which is your rank?",
    )


def _cure(check: Checklist, kind: Kind, said: str) -> None:
    check.that(
        kind.is_cured_by(said),
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
