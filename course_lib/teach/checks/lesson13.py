"""Checks of lesson 13, parallel layers by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice, permutations
from math import prod
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned, whole_numbers
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

Groups = list[list[int]]
Sizes = Mapping[str, int]
# An order, the sizes of its axes, and the axis whose groups are asked for.
Case = tuple[str, Sizes, str]
# Try first the sizes in which each mistake gives different groups.
FIRST: list[Case] = [("cp-dp-tp", {"tp": 2, "cp": 3, "dp": 4}, axis) for axis in ("dp", "tp")]
TRIED = (
    {"tp": 4, "cp": 1, "dp": 2}, {"tp": 2, "cp": 2, "dp": 2}, {"tp": 2, "cp": 3, "dp": 4},
    {"tp": 1, "cp": 1, "dp": 1}, {"tp": 8, "cp": 1, "dp": 1}, {"tp": 2, "cp": 2, "dp": 3, "pp": 2},
)  # fmt: skip


def ex13_groups(function: Any) -> None:
    """Check the groups of ranks for an order such as tp-cp-dp."""
    with Checklist("13.1") as check:
        is_function(check, function, "rank_groups")
        tried = [*FIRST]
        for sizes in TRIED:
            for names in permutations(sizes):
                tried += [("-".join(names), sizes, axis) for axis in sizes]
        found = [_groups_of(check, function, case) for case in tried]
        wrong = [case for case, ranks in zip(tried, found, strict=True) if ranks != groups(*case)]
        if wrong:
            _refuse_groups(check, wrong[0], list(zip(tried, found, strict=True)))
        orders = len({order for order, *_rest in tried})
        right = _("✓ right for {value} orders, {tried} cases", value=orders, tried=len(tried))
        check.lines.append(right)


def _groups_of(check: Checklist, function: Any, case: Case) -> Groups:
    order, sizes, axis = case
    read = partial(_groups_in, most=prod(sizes.values()) + 1)
    found: Groups = returned(check, function, read, order=order, sizes=dict(sizes), axis=axis)
    return found


def _groups_in(answer: Any, most: int) -> Groups:
    groups = answer.values() if isinstance(answer, Mapping) else answer
    return sorted(sorted(whole_numbers(group, most)) for group in islice(groups, most))


def groups(order: str, sizes: Sizes, axis: str) -> Groups:
    """Return the groups of ranks along one axis. The first axis of the order varies fastest."""
    names = order.split("-")[::-1]
    ranks = np.arange(prod(sizes.values())).reshape([sizes[name] for name in names])
    found: Groups = np.moveaxis(ranks, names.index(axis), -1).reshape(-1, sizes[axis]).tolist()
    return sorted(found)


def _refuse_groups(check: Checklist, case: Case, tried: list[tuple[Case, Groups]]) -> None:
    order, sizes, axis = case
    alike = [(one, ranks) for one, ranks in tried if one[1] == sizes]
    found = next(ranks for one, ranks in alike if one == case)
    named = ", ".join(f"{name} {size}" for name, size in sizes.items())
    where = _(
        '"{order}" with {named}: the {axis} groups are {wanted}, and yours are {found}.',
        order=order,
        named=named,
        axis=axis,
        wanted=_short(groups(*case)),
        found=_short(found),
    )
    requirement = _("{axis} groups of {order}", axis=axis, order=order)
    check.refuse(requirement, _why_groups(case, found, alike), f"{where}\n")


def _why_groups(case: Case, found: Groups, alike: list[tuple[Case, Groups]]) -> str:
    """Name a mistake if it leads to the groups of every order of these sizes."""
    cure = _("Multiply the sizes of all axes before the axis in `order`, and no others.")
    for why in _likely(*case):
        if all(ranks == groups("-".join(_likely(*one)[why]), *one[1:]) for one, ranks in alike):
            return f"{_(why)} {cure}"
    mine, right = (found or [[]])[0], groups(*case)[0]
    if len(mine) != len(right):
        return _("A group has {size} ranks, one for each place on the axis.", size=len(right))
    if (apart := np.diff(mine).tolist()) != np.diff(right).tolist():
        told = _("Your neighbours on the axis are {apart} ranks apart.", apart=apart[0])
        return f"{told} {cure}"
    return _("Each of the {world} ranks is in exactly one group.", world=prod(case[1].values()))


def _likely(order: str, sizes: Sizes, axis: str) -> dict[N_, list[str]]:
    """Return the order in which each likely mistake reads the axes."""
    names = order.split("-")
    before, after = names[: names.index(axis)], names[names.index(axis) + 1 :]
    return {
        N_("The order is read from the wrong end: the first axis varies fastest."): names[::-1],
        N_("The groups do not depend on `order`."): [*sizes],
        N_("You read each axis as the first one."): [axis, *before, *after],
        N_("You read each axis as the last one."): [*before, *after, axis],
        N_("You count only the axis just before it."): [*before[-1:], axis, *before[:-1], *after],
    }


def _short(ranks: Groups) -> str:
    return " ".join(map(str, ranks[:4])) + (" …" if len(ranks) > 4 else "")


ex13_column = tried("13.2", "column")
ex13_row = tried("13.3", "row")
ex13_attention = tried("13.4", "attention")
ex13_pipeline = tried("13.5", "pipeline")
