"""Compare a learner's diagnosis of a blind case with its real fault, and keep the score."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.mysteries import BlindCase, opened
from course_lib.lab.queue.slurm import expand_hosts
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
        said, right = causes()[self.cause], causes()[self.case.kind]
        check.that(
            self.cause == self.case.kind,
            _("the cause: {title}", title=said.title),
            hint=_(
                "In this case, {looks}. Is that what you see? {look}",
                looks=said.looks,
                look=right.look,
            ),
        )
        self._judge_ranks(check, right.place)
        self._judge_nodes(check, right.place)
        check.that(
            self.cure in right.cures,
            _("the cure: {cure}", cure=cures()[self.cure]),
            hint=_(
                "The cause is right: {title}. But would your cure prevent the failure or the wrong "
                "result? Go through the list once more.",
                title=right.title,
            ),
        )

    def _judge_ranks(self, check: Checklist, place: str) -> None:
        hint = _("Which rank does the evidence name first? Other ranks may only show consequences.")
        if not self.ranks or self.ranks == set(range(self.run.recipe.devices)):
            said = _("no single rank has the fault")
            is_right = place in ("all", "disk") or (place == "node" and not self.ranks)
        else:
            said = _("rank {rank}", rank=", ".join(map(str, sorted(self.ranks))))
            right = self._faulty_ranks(place)
            is_right = self.ranks == right
            hint = f"{hint} {_('If no single rank has the fault, give None.')}"
            if self.ranks < right:
                hint = _("Another rank of this node has the fault too. Give a list of all of them.")
        check.that(is_right, said, hint=hint)

    def _judge_nodes(self, check: Checklist, place: str) -> None:
        names, per_node = node_names(self.run), self.run.recipe.gpus_per_node
        hint = _(
            "The nodes are {names}, and ranks fill them in this order, {per_node} on each. On "
            "which is your rank?",
            names=", ".join(names),
            per_node=per_node,
        )
        if not self.nodes or self.nodes == set(names):
            said, is_right = _("no single node has the fault"), place in ("all", "disk")
        else:
            ranks = self._faulty_ranks(place)
            said = _("node {node}", node=", ".join(self.nodes))
            is_right = self.nodes == {
                names[min(rank // per_node, len(names) - 1)] for rank in ranks
            }
            hint = f"{hint} {_('If no single node has the fault, give None.')}"
        check.that(is_right, said, hint=hint)

    def _faulty_ranks(self, place: str) -> set[int]:
        if place == "all":
            return set()
        if place in ("rank 0", "disk"):
            return {0}
        if place == "rank":
            return {self.case.rank}
        per_node = self.run.recipe.gpus_per_node
        first = self.case.rank // per_node * per_node
        return set(range(first, first + per_node))


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
    ranks = frozenset(_rank(one, devices) for one in _parts(rank))
    last = devices - 1
    numbers = _("Give a number from 0 to {last}, a list of numbers, or None.", last=last)
    check.needs(-1 not in ranks, _("the given rank exists"), hint=numbers)
    nodes = frozenset(_node(one, names) for one in _parts(node))
    hint = _("The nodes are {names}. Give a name, or None.", names=", ".join(names))
    check.needs("" not in nodes, _("the given node exists"), hint=hint)
    return Diagnosis(run, case, cause_key, ranks, nodes, cure_key)


def case_in(run: Any) -> BlindCase | None:
    """Return the blind case of a run; None if the object has none."""
    recipe = getattr(run, "recipe", None)
    return opened(recipe) if isinstance(recipe, Recipe) else None


def _choice(check: Checklist, name: str, answer: Any, choices: dict[str, str]) -> str:
    key = chosen(answer, choices)
    if key is None:
        check.stop(_("{name} is in the list", name=name), no_choice(choices))
    return key


def _parts(answer: Any) -> list[Any]:
    """Return the answers as a list: members of a collection, a single answer, or nothing."""
    if answer is None or (isinstance(answer, str) and answer.strip().lower() == "none"):
        return []
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes):
        return list(answer)
    return [answer]


def _rank(answer: Any, devices: int) -> int:
    """Return the rank from a number or a text: 2, "2", "rank 2"; -1 if it is not a valid rank."""
    found = re.fullmatch(r"(?:rank\W*)?(\d{1,4})(?:\.0)?", str(answer).strip().lower())
    return int(found[1]) if found and int(found[1]) < devices else -1


def _node(answer: Any, names: list[str]) -> str:
    """Return the node with this name, with or without its domain, or with this number; or ""."""

    def short(name: str) -> str:
        return re.sub(r"[\s_-]", "", name.partition(".")[0].lower())

    said = short(str(answer))
    found = [name for name in names if said == short(name) or _number(short(name)) == said != ""]
    return found[0] if len(found) == 1 else ""


def _number(name: str) -> str:
    return re.sub(r".*?0*(?=\d*$)", "", name, count=1)


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
