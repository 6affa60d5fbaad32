"""Checks of lesson 13, parallel layers by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, permutations
from math import prod
from typing import Any

import numpy as np

from course_lib.plan.checks import PlanError
from course_lib.plan.numbers import real
from course_lib.plan.schedules.steps import Step
from course_lib.plan.schedules.timing import timed
from course_lib.teach.answers import in_short
from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned, whole_numbers
from course_lib.teach.trials.judge import is_right, tried
from course_lib.teach.trials.own_file import comes_back, could_load, function_tried
from course_lib.teach.trials.verdict import trial_of
from course_lib.words import _

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
SCHEDULE = "one_f_one_b"
MOST_STAGES, MOST_MICRO_BATCHES = 8, 16
# Work of one micro-batch on one stage. A backward pass takes as long as two forward passes.
WORK = 3


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
    named = ", ".join(f"{name} {size}" for name, size in sizes.items())
    alike = [(one, ranks) for one, ranks in tried if one[1] == sizes]
    found = next(ranks for one, ranks in alike if one == case)
    check.refuse(
        _("{axis} groups of {order}", axis=axis, order=order),
        _(
            '"{order}" with {named}: the {axis} groups are {wanted}, and yours are {found}.\n{why}',
            order=order,
            named=named,
            axis=axis,
            wanted=_short(groups(*case)),
            found=_short(found),
            why=_why_groups(case, found, alike),
        ),
    )


def _why_groups(case: Case, found: Groups, alike: list[tuple[Case, Groups]]) -> str:
    """Name a mistake if it leads to the groups of every order of these sizes."""
    _order, sizes, _axis = case
    backwards = [("-".join(one.split("-")[::-1]), axis, ranks) for (one, _s, axis), ranks in alike]
    if all(ranks == groups(order, sizes, axis) for order, axis, ranks in backwards):
        return _("The order is read from the wrong end: the first axis varies fastest.")
    if all(ranks == groups("-".join(sizes), sizes, axis) for (_o, _s, axis), ranks in alike):
        return _("The groups do not depend on `order`: these are the groups of a different order.")
    mine, right = (found or [[]])[0], groups(*case)[0]
    if len(mine) != len(right):
        return _("A group has {size} ranks, one for each place on the axis.", size=len(right))
    if (apart := np.diff(mine).tolist()) != np.diff(right).tolist():
        told = _("Your neighbours on the axis are {apart} ranks apart.", apart=apart[0])
        return f"{told} {_('Multiply the sizes of all axes before it.')}"
    return _("Each of the {world} ranks is in exactly one group.", world=prod(sizes.values()))


def _short(ranks: Groups) -> str:
    return " ".join(map(str, ranks[:4])) + (" …" if len(ranks) > 4 else "")


ex13_column = tried("13.2", "column")
ex13_row = tried("13.3", "row")
ex13_attention = tried("13.4", "attention")


def ex13_schedule(mine: Any, run: Any) -> None:
    """Check 1F1B: the steps of one stage, first in a trial on ranks, then without any.

    Code that hangs or prints without end on a rank would also do so in the notebook. The check
    therefore reads the trial before it runs the file here.
    """
    with Checklist("13.5") as check:
        check.answered(mine, SCHEDULE)
        trial = trial_of(check, run, "schedule")
        could_load(check, trial)
        comes_back(check, trial)
        is_1f1b(check, function_tried(check, mine, run, SCHEDULE))
        is_right(check, run, "schedule")


def is_1f1b(check: Checklist, function: Any) -> None:
    """Try pipelines of all sizes without ranks, the sizes of the figures first."""
    is_function(check, function, SCHEDULE)
    sizes = [(p, m) for p in range(1, MOST_STAGES + 1) for m in range(1, MOST_MICRO_BATCHES + 1)]
    for stages, micro_batches in [(4, 8), (2, 4), (4, 2), *sizes]:
        made = [_steps(check, function, stages, stage, micro_batches) for stage in range(stages)]
        for stage, steps in enumerate(made):
            where = _(
                "stage {stage} of {stages}, {micro_batches} micro-batches",
                stage=stage,
                stages=stages,
                micro_batches=micro_batches,
            )
            _is_whole(check, steps, micro_batches, where)
            _holds_few(check, made, stage, micro_batches, where)
        _ends_in_time(check, made, micro_batches)
    check.lines += [
        _("✓ every micro-batch goes forward once and back once, in order"),
        _("✓ stage r of p never holds more than p − r micro-batches"),
        _(
            "✓ no stage waits for ever, and a step is as short as it can be: {most_stages} "
            "× {most_micro_batches} pipelines tried",
            most_stages=MOST_STAGES,
            most_micro_batches=MOST_MICRO_BATCHES,
        ),
    ]


def _steps(
    check: Checklist, function: Callable[..., Any], stages: int, stage: int, micro_batches: int
) -> list[Step]:
    most = 2 * (micro_batches + stages)
    found: list[Step] = returned(
        check,
        function,
        lambda given: [_step_in(one) for one in islice(given, most + 1)],
        stages=stages,
        stage=stage,
        micro_batches=micro_batches,
    )
    check.unless(
        len(found) > most,
        _("stage {stage} of {stages} comes to its end", stage=stage, stages=stages),
        hint=_(
            "It gives more than {most} steps. Each of the {micro_batches} micro-batches has two.",
            most=most,
            micro_batches=micro_batches,
        ),
    )
    return found


def _step_in(given: Any) -> Step:
    """Read a (phase, number) pair, or a `Step` of the planner."""
    if isinstance(given, Step):
        return given
    phase, number = given if isinstance(given, tuple | list) and len(given) == 2 else ("", "")
    count = real(number)
    if phase not in ("forward", "backward") or count is None or count != int(count):
        raise TypeError(
            _(
                'it gives {given}; a step is ("forward", 0) or ("backward", 0)',
                given=in_short(given),
            )
        )
    return Step(phase, int(count))


def _is_whole(check: Checklist, steps: Sequence[Step], micro_batches: int, where: str) -> None:
    wanted = list(range(micro_batches))
    passes = {
        phase: [step.micro_batch for step in steps if step.phase == phase]
        for phase in ("forward", "backward")
    }
    for name, found in passes.items():
        check.unless(
            found != wanted,
            _("each micro-batch goes {name} once, in order ({where})", name=name, where=where),
            hint=_(
                "Forward has {forward}, backward has {backward}. Micro-batches count from 0. A "
                "stage gets them in the order in which its neighbour makes them. With fewer "
                "micro-batches than stages the pipeline is never full.",
                **passes,
            ),
        )
    early = [m for m in wanted
             if steps.index(Step("backward", m)) < steps.index(Step("forward", m))]  # fmt: skip
    check.unless(
        bool(early),
        _("backward comes after forward ({where})", where=where),
        hint=_("Backward of micro-batch {early} comes before its forward.", early=early[:1]),
    )


def _most_held(steps: Iterable[Step]) -> int:
    held = most = 0
    for step in steps:
        held += 1 if step.phase == "forward" else -1
        most = max(most, held)
    return most


def _holds_few(
    check: Checklist, made: Sequence[Sequence[Step]], stage: int, micro_batches: int, where: str
) -> None:
    stages, held = len(made), _most_held(made[stage])
    check.unless(
        held > min(stages - stage, micro_batches),
        _(
            "it holds at most p − r = {stages} micro-batches ({where})",
            stages=stages - stage,
            where=where,
        ),
        hint=_(
            "It holds {held}: the warm-up is too long. It has p − r − 1 forward passes; then "
            "forward and backward take turns.",
            held=held,
        ),
    )


def _ends_in_time(check: Checklist, made: Any, micro_batches: int) -> None:
    stages = len(made)
    where = _(
        "{stages} stages, {micro_batches} micro-batches", stages=stages, micro_batches=micro_batches
    )
    try:
        whole = float(timed(made)["end"].max())
    except PlanError as error:
        check.refuse(_("no stage waits for ever ({where})", where=where), str(error))
    wanted = WORK * (micro_batches + stages - 1)
    check.unless(
        whole > wanted,
        _(
            "a step is as short as it can be: {wanted} forward passes ({where})",
            wanted=wanted,
            where=where,
        ),
        hint=_(
            "It takes {whole:g} forward passes: the warm-up is too short. It has p − r − 1 forward "
            "passes, one for each stage behind stage r.",
            whole=whole,
        ),
    )
