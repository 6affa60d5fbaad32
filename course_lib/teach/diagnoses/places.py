"""Which rank and which node a learner says it is, in any form, and which it is."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from course_lib import read
from course_lib.lab.mysteries import BlindCase
from course_lib.teach.answers import in_short, number_in, number_written, text_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.spoken import wording

OF_THE_FIRST = ("first", "disk")
"""What rank 0 tells of: it listens for all, or writes for all."""
MOST_RANKS = 4096
NOBODY = re.compile(
    r"(?:none|no|all|any|every|each|both|nobody|everybody|everyone|n/?a|-|)(?: (?:of|them|the|one|"
    r"single|ranks?|nodes?|in|particular|alone|alike|four|two))*|all \d+(?: ranks| nodes)?"
)
EVERYBODY = re.compile(r"\b(?:all|any|every\w*|each)\b")
RANK = re.compile(
    r"\W*(?:on |the |global )*(?:ranks?|processe?s?|r)?[\s#:=_-]*(?:no\.? ?|number )?(\d+)\W*"
)
COUNTED = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
)  # fmt: skip
FIGURES = {word: str(number) for number, word in enumerate(COUNTED)}
NODE = re.compile(
    r"\W*(?:on |the )*(?:nodes?|hosts?|machines?)?[\s#:=_-]*(?:no\.? ?|number )?(\d+)(?:\.0)?\W*"
)
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
PLACE = re.compile(rf"\W*(?:on |the )*({'|'.join(PLACES)}) ?(?:node|host|machine|one)?\W*")


def judge_rank(check: Checklist, run: Any, case: BlindCase, kind: Kind, rank: Any) -> None:
    said = _numbers_in(rank)
    nobody = rank is None or _is_nobody(rank) or said == set(range(run.recipe.devices))
    both_of_a_node = kind.one == "node" and not _is_of_all(rank, said)
    if kind.one == "none" or (nobody and (kind.one == "disk" or both_of_a_node)):
        check.that(nobody, "no single rank has it", hint="It is not one rank alone. Give None.")
        return
    check.unless(nobody, "the rank", hint="It began at one place. Which rank is unlike the others?")
    wanted, shown = _ranks(run, case, kind), _shown(rank)
    check.that(
        bool(said) and said <= wanted, f"rank {shown}", hint=_why_not_rank(shown, said, wanted)
    )


def _why_not_rank(shown: str, said: set[float], wanted: set[int]) -> str:
    if not said:
        return "No one rank can be read from that. Give its number, such as 2."
    if said & wanted:
        return "That is more than one. Which of them is the first that the evidence names?"
    return f"Rank {shown} only met the consequences. Who is the first that the evidence names?"


def _in_english(given: Any) -> str | None:
    text = text_in(given)
    return None if text is None else wording().translated(text)


def _is_nobody(said: Any) -> bool:
    text = _in_english(said)
    return text is not None and NOBODY.fullmatch(text.strip().strip(".").lower()) is not None


def _is_of_all(given: Any, said: set[float]) -> bool:
    """`None` and "no single one" may mean both ranks of a node; "all ranks" does not."""
    text = _in_english(given)
    return bool(said) or (text is not None and EVERYBODY.search(text.lower()) is not None)


def _numbers_in(rank: Any) -> set[float]:
    """Of one rank, or of several: "rank 2", [2, 3], "2 and 3"."""
    text = _in_english(rank)
    if text is not None:
        parts = re.split(r",| and |&|\+", _in_figures(text.strip().lower()))
        found = [RANK.fullmatch(part) for part in parts]
        return {float(one[1]) for one in found if one} if all(found) else set()
    number = number_written(rank)
    if number is not None:
        return {number}
    try:
        numbers = [number_in(one) for one in islice(rank, MOST_RANKS)]
    except Exception:  # nothing that has several
        return set()
    return {one for one in numbers if one is not None} if None not in numbers else set()


def _in_figures(text: str) -> str:
    """Numbers that are written out, as figures: "rank two"."""
    return re.sub(r"[a-z]+", lambda found: FIGURES.get(found[0], found[0]), text)


def _shown(given: Any) -> str:
    text = text_in(given)
    return text if text is not None else in_short(given)


def _ranks(run: Any, case: BlindCase, kind: Kind) -> set[int]:
    if kind.one in OF_THE_FIRST:
        return {0}
    if kind.one == "rank":
        return {case.rank}
    on_each = run.recipe.gpus_per_node
    first = case.rank // on_each * on_each
    return set(range(first, first + on_each))


def judge_node(check: Checklist, run: Any, case: BlindCase, kind: Kind, node: Any) -> None:
    said = "" if node is None else _shown(node)
    names = [str(name) for name in read.expand_hosts(run.status.nodes)] or ["node1", "node2"]
    nobody = node is None or _is_nobody(node) or _named(said, names) == {*map(_bare, names)}
    if kind.one == "none" or (kind.one == "disk" and nobody):
        check.that(nobody, "no single node has it", hint="All nodes have it. Give None.")
        return
    rank = 0 if kind.one in OF_THE_FIRST else case.rank
    wanted = names[min(rank // run.recipe.gpus_per_node, len(names) - 1)].lower()
    check.that(
        _named(said, names) == {_bare(wanted)},
        f"node {said}",
        hint=f"The nodes are {', '.join(names)}, and ranks fill them in this order, "
        f"{run.recipe.gpus_per_node} on each. On which is your rank?",
    )


def _bare(name: str) -> str:
    """As people write it: without the domain, with a space or a hyphen somewhere."""
    return re.sub(r"[\s_-]", "", _stem(name).lower())


def _named(said: str, names: list[str]) -> set[str]:
    """Which nodes a text names; none where it denies one."""
    said = wording().translated(said)
    if one := _counted(_in_figures(said.lower()), names):
        return {_bare(one)}
    if re.search(r"\b(?:not|no|but)\b", said, re.IGNORECASE):
        return set()
    text = re.sub(r"[\s_-]", "", said.lower())
    return {_bare(name) for name in names if re.search(rf"{re.escape(_bare(name))}(?!\d)", text)}


def _counted(said: str, names: list[str]) -> str | None:
    """The node whose name ends in a bare number, or the one of a place: "2", "second node"."""
    if place := PLACE.fullmatch(said):
        return dict(zip(PLACES, names, strict=False)).get(place[1])
    if number := NODE.fullmatch(said):
        ends = [name for name in names if re.search(rf"(?<!\d)0*{int(number[1])}$", _stem(name))]
        return ends[0] if len(ends) == 1 else None
    return None


def _stem(name: str) -> str:
    return name.split(".", maxsplit=1)[0]
