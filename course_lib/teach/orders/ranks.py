"""Groups of ranks by an order string, as a learner's function makes them: right, or which slip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice, permutations
from math import prod
from typing import Any

import numpy as np

from course_lib.plan.numbers import real
from course_lib.teach.answers import in_short
from course_lib.teach.checklist import Checklist
from course_lib.teach.orders.calling import called

NAME = "rank_groups"
APART = (
    "Two neighbours on an axis are as many ranks apart as all axes before it have places together: "
    "the product of their sizes."
)
Groups = list[list[int]]
Sizes = Mapping[str, int]
FIRST = ("cp-dp-tp", {"tp": 2, "cp": 3, "dp": 4}, "dp")
TRIED = (
    {"tp": 4, "cp": 1, "dp": 2}, {"tp": 2, "cp": 2, "dp": 2}, {"tp": 2, "cp": 3, "dp": 4},
    {"tp": 1, "cp": 1, "dp": 1}, {"tp": 8, "cp": 1, "dp": 1}, {"tp": 2, "cp": 2, "dp": 3, "pp": 2},
)  # fmt: skip


def groups(order: str, sizes: Sizes, axis: str) -> Groups:
    """Counted with the first axis fastest, the ranks are an array whose last axis is that one."""
    names = order.split("-")[::-1]
    ranks = np.arange(prod(sizes.values())).reshape([sizes[name] for name in names])
    found: Groups = np.moveaxis(ranks, names.index(axis), -1).reshape(-1, sizes[axis]).tolist()
    return found


def cases() -> list[tuple[str, Sizes, str]]:
    """First one in which each slip gives other groups, then every order of every set of sizes."""
    found: list[tuple[str, Sizes, str]] = [FIRST]
    for sizes in TRIED:
        for names in permutations(sizes):
            found += [("-".join(names), sizes, axis) for axis in sizes]
    return found


def are_right(check: Checklist, function: Any) -> None:
    check.answered(function, NAME)
    check.unless(
        not callable(function),
        f"{NAME} is a function",
        hint=f"This is {type(function).__name__}. Give the check the function itself, without "
        "calling it.",
    )
    tried = cases()
    for order, sizes, axis in tried:
        found = _called(check, function, order, dict(sizes), axis)
        _is_right(check, found, (order, sizes, axis))
    check.lines.append(f"✓ right for {len({order for order, *_ in tried})} orders, "
                       f"{len(tried)} cases")  # fmt: skip


def _called(
    check: Checklist, function: Callable[..., Any], order: str, sizes: dict[str, int], axis: str
) -> Groups:
    asked = f'{NAME}("{order}", {sizes}, "{axis}")'
    try:
        answer = called(function, order=order, sizes=sizes, axis=axis)
        if answer is None or answer is ...:
            raise TypeError("it gave nothing yet: fill in the gap and return the groups")
        most = prod(sizes.values()) + 1
        groups = answer.values() if isinstance(answer, Mapping) else answer
        found = [[real(rank) for rank in islice(group, most)] for group in islice(groups, most)]
    except Exception as error:
        check.refuse(f"{asked} gives lists of ranks", f"{type(error).__name__}: {str(error)[:200]}")
    if any(rank is None or rank != int(rank) for group in found for rank in group):
        check.refuse(f"{asked} gives lists of ranks", f"It gave {in_short(answer)}.")
    return sorted(sorted(int(rank or 0) for rank in group) for group in found)


def _is_right(check: Checklist, found: Groups, case: tuple[str, Sizes, str]) -> None:
    order, sizes, axis = case
    wanted = sorted(groups(*case))
    if found == wanted:
        return
    told = f'"{order}" with {_named(sizes)}: the {axis} groups are {_short(wanted)}, '
    check.refuse(
        f"{axis} groups of {order}",
        f"{told}and yours are {_short(found)}.\n{_why(found, wanted, case)}",
    )


def _why(found: Groups, wanted: Groups, case: tuple[str, Sizes, str]) -> str:
    """The first of the usual slips that gives these groups."""
    order, sizes, axis = case
    world = prod(sizes.values())
    reverse = "-".join(order.split("-")[::-1])
    others = [
        name for name in sizes if name != axis and sorted(groups(order, sizes, name)) == found
    ]
    blocks = [list(range(n, n + sizes[axis])) for n in range(0, world, sizes[axis])]
    fixed = sorted(groups("-".join(sizes), sizes, axis))
    lengths = {len(group) for group in found}
    present = sorted(rank for group in found for rank in group)
    turned = sorted(groups(reverse, sizes, axis))
    slips = {
        "The order is read from the wrong end: the first axis varies fastest.": found == turned,
        f"These are the {''.join(others[:1])} groups.": bool(others),
        f"Each of the {world} ranks has to be in exactly one group.": present != [*range(world)],
        f"These are ranks that have the same place on the {axis} axis. Its groups hold those that "
        "differ in this place alone.": lengths == {world // sizes[axis]} != {sizes[axis]},
        f"Neighbours are together whatever the order. {APART}": found == blocks,
        "The order string does not enter: these are the groups of another order.": found == fixed,
    }
    return next((told for told, is_so in slips.items() if is_so), APART)


def _named(sizes: Sizes) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def _short(ranks: Groups) -> str:
    return " ".join(map(str, ranks[:4])) + (" …" if len(ranks) > 4 else "")
