"""Compare a learner's diagnosis of a blind case with its real fault, and keep the score."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.mysteries import BlindCase, opened
from course_lib.lab.queue.field_values import expand_hosts
from course_lib.lab.workspace import account
from course_lib.teach import jsonl
from course_lib.teach.checklist import Checklist
from course_lib.teach.diagnoses.lists import causes, chosen, cures, no_choice
from course_lib.words import _

FILE = ".course/mysteries.jsonl"
OUT_OF = 10


@dataclass(frozen=True)
class Diagnosis:
    """Learner's answer in a form that can be judged.

    Empty ranks or nodes mean that no single rank or node is at fault.
    """

    run: Any
    case: BlindCase
    cause: str
    ranks: frozenset[int]
    nodes: frozenset[str]
    cure: str

    def judge(self, check: Checklist) -> None:
        """Judge cause, rank, node and cure, in this order."""
        self._judge_cause(check)
        self._judge_ranks(check)
        self._judge_nodes(check)
        self._judge_cure(check)

    def _judge_cause(self, check: Checklist) -> None:
        said, right = causes()[self.cause], causes()[self.case.kind]
        hint = _(
            "In this case, {looks}. Is that what you see? {look}", looks=said.looks, look=right.look
        )
        is_right = self.cause == self.case.kind
        check.that(is_right, _("the cause: {title}", title=said.title), hint=hint)

    def _judge_ranks(self, check: Checklist) -> None:
        place, everybody = causes()[self.case.kind].place, set(range(self.run.recipe.devices))
        said = ", ".join(map(str, sorted(self.ranks)))
        if not self.ranks or self.ranks == everybody:
            is_right = place in ("all", "disk") or (place == "node" and not self.ranks)
            hint = _("The fault began on one rank. Which rank differs from the others?")
            check.that(is_right, _("no single rank has the fault"), hint=hint)
            return
        wanted = self._ranks_that_have_it(place)
        if not wanted:
            hint = _("The fault is not on one rank alone. Give None.")
        elif self.ranks & wanted:
            hint = _("You gave more than one rank. Which of them does the evidence name first?")
        else:
            hint = _("This rank only shows consequences. Which rank does the evidence name first?")
        check.that(self.ranks <= wanted, _("rank {rank}", rank=said), hint=hint)

    def _judge_nodes(self, check: Checklist) -> None:
        place, names = causes()[self.case.kind].place, node_names(self.run)
        if not self.nodes or self.nodes == set(names):
            hint = _("The fault began on one node, the node of your rank.")
            check.that(place in ("all", "disk"), _("no single node has the fault"), hint=hint)
            return
        per_node = self.run.recipe.gpus_per_node
        wanted = {
            names[min(rank // per_node, len(names) - 1)] for rank in self._ranks_that_have_it(place)
        }
        hint = _("All nodes have the fault. Give None.")
        if wanted:
            hint = _(
                "The nodes are {names}, and ranks fill them in this order, {per_node} on each. On "
                "which is your rank?",
                names=", ".join(names),
                per_node=per_node,
            )
        check.that(self.nodes == wanted, _("node {node}", node=", ".join(self.nodes)), hint=hint)

    def _ranks_that_have_it(self, place: str) -> set[int]:
        if place == "all":
            return set()
        if place in ("rank 0", "disk"):
            return {0}
        if place == "rank":
            return {self.case.rank}
        per_node = self.run.recipe.gpus_per_node
        first = self.case.rank // per_node * per_node
        return set(range(first, first + per_node))

    def _judge_cure(self, check: Checklist) -> None:
        cause = causes()[self.case.kind]
        hint = _(
            "The cause is right: {title}. But would your cure prevent the failure or the wrong "
            "result? Go through the list once more.",
            title=cause.title,
        )
        said = _("the cure: {cure}", cure=cures()[self.cure])
        check.that(self.cure in cause.cures, said, hint=hint)


def diagnosis(check: Checklist, run: Any, *answers: Any) -> Diagnosis:
    """Read cause, rank, node and cure. Refuse unreadable answers without judging them."""
    cause, rank, node, cure = answers
    check.answered(run, _("the run"))
    case = case_in(run)
    if case is None:
        hint = _("This is not a blind case. `lab.mystery(3)` submits the case of seed 3.")
        check.stop(_("this is a blind case"), hint)
    check.ended(run)
    for name, answer in (("cause", cause), ("rank", rank), ("node", node), ("cure", cure)):
        check.answered(answer, name)
    titles = {key: one.title for key, one in causes().items()}
    cause_key = _choice(check, "cause", cause, titles)
    cure_key = _choice(check, "cure", cure, cures())
    devices, names = run.recipe.devices, node_names(run)
    ranks = [_rank(one, devices) for one in _parts(rank)]
    hint = _(
        "Ranks are numbered from 0 to {last}. Give a number, a list of numbers, or None.",
        last=devices - 1,
    )
    known_ranks = frozenset(one for one in ranks if one is not None)
    check.needs(len(known_ranks) == len(ranks), _("the given rank exists"), hint=hint)
    nodes = [_node(one, names) for one in _parts(node)]
    hint = _("The nodes are {names}. Give a name, or None.", names=", ".join(names))
    known_nodes = frozenset(one for one in nodes if one is not None)
    check.needs(len(known_nodes) == len(nodes), _("the given node exists"), hint=hint)
    return Diagnosis(run, case, cause_key, known_ranks, known_nodes, cure_key)


def case_in(run: Any) -> BlindCase | None:
    """Return the blind case of a run; None if the object has none."""
    recipe = getattr(run, "recipe", None)
    return opened(recipe) if isinstance(recipe, Recipe) else None


def _choice(check: Checklist, name: str, answer: Any, choices: dict[str, str]) -> str:
    key = chosen(answer, choices)
    if key is None:
        check.stop(_("{name} is in the list", name=name), no_choice(answer, choices))
    return key


def _parts(answer: Any) -> list[Any]:
    """Return the answers as a list: members of a collection, a single answer, or nothing."""
    if answer is None or (isinstance(answer, str) and answer.strip().lower() == "none"):
        return []
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes):
        return list(answer)
    return [answer]


def _rank(answer: Any, devices: int) -> int | None:
    """Return the rank from a number or a text: 2, "2", "rank 2"; None if it is not a valid rank."""
    found = re.fullmatch(r"(?:rank\W*)?(\d{1,4})(?:\.0)?", str(answer).strip().lower())
    return int(found[1]) if found and int(found[1]) < devices else None


def _node(answer: Any, names: list[str]) -> str | None:
    """Return the node with this name, with or without its domain, or with this number."""
    said = re.sub(r"[\s_-]", "", str(answer).lower())
    for name in names:
        stem = name.partition(".")[0].lower()
        if said in (name.lower(), re.sub(r"[\s_-]", "", stem)) or said.partition(".")[0] == stem:
            return name
    numbered = [name for name in names if re.search(rf"(?<!\d)0*{re.escape(said)}$", name)]
    return numbered[0] if said.isdecimal() and len(numbered) == 1 else None


def node_names(run: Any) -> list[str]:
    """Return the nodes of a run in the order of their ranks."""
    return [str(name) for name in expand_hosts(run.status.nodes)] or ["node1", "node2"]


def keep(workspace: Path, seed: str, *, is_solved: bool) -> None:
    """Record one judged answer for the score."""
    entry = {"learner": account(), "case": seed, "solved": is_solved}
    jsonl.append(workspace / FILE, entry, _("the score"))


def score(workspace: Path) -> str:
    """Say how many of the first ten cases were solved, and how many on the first attempt."""
    tries: dict[str, list[bool]] = {}
    for entry in jsonl.entries(workspace / FILE):
        if entry.get("learner") == account():
            tries.setdefault(str(entry.get("case")), []).append(entry.get("solved") is True)
    cases = list(tries.values())[:OUT_OF]
    return _(
        "{solved} of {cases} blind cases solved, {at_once} of them on the first try (a full score "
        "is {full})",
        solved=sum(any(one) for one in cases),
        cases=len(cases),
        at_once=sum(one[0] for one in cases),
        full=OUT_OF,
    )
