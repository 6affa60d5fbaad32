"""Checks of lesson 15, the benchmark at scale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
from typing import Any

from course_lib.lab import bench
from course_lib.teach.answers import what_it_is
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import batch_is
from course_lib.teach.functions import is_function, quiet, returned
from course_lib.words import _

LARGE = bench.CASES["175"]
BATCH = LARGE.layout.global_batch
# Nodes and memory of a device in GiB, as the exercise asks for them. The last needs micro batch 2.
QUESTIONS = ((64, 40.0), (24, 60.0), (96, 17.0), (24, 45.4))
# Nodes that are drawn, each with the range of its memory.
DRAWN = {24: (46, 66), 32: (38, 56), 48: (24, 34), 96: (16, 26), 128: (14, 24)}
# Sizes that a search has to try. More are allowed.
TENSOR, MICRO_BATCH = (1, 2, 4, 8, 16), (1, 2)


def ex15_fastest(function: Any) -> None:
    """Check a search for the fastest layout that fits into a given memory."""
    with Checklist("15.1") as check:
        is_function(check, function, "fastest")
        draw = check.drawn()
        nodes = draw.choice(list(DRAWN))
        for question in (*QUESTIONS, (nodes, round(draw.uniform(*DRAWN[nodes]), 1))):
            _is_fastest(check, function, *question)


def _is_fastest(check: Checklist, function: Any, nodes: int, limit_gib: float) -> None:
    best = min(_fitting(nodes, limit_gib), key=lambda one: one.time_to_report_s)
    case = returned(check, function, _case, quiet, nodes=nodes, limit_gib=limit_gib)
    asked = _("{nodes} nodes, {gib} GiB", nodes=nodes, gib=limit_gib)
    layout, plan = case.layout, bench.plan(case)
    needs = plan.estimate.device_gib if plan.estimate else inf
    check.unless(
        (case.tag, case.nodes, layout.global_batch) != (LARGE.tag, nodes, BATCH),
        _("{asked}: the case has this batch and these nodes", asked=asked),
        hint=_(
            "Your case is {title} on {nodes} nodes with a global batch of {batch}. Use 175 B, the "
            "given nodes, and the accumulation that leads to a batch of {wanted}.",
            title=case.title, nodes=case.nodes, batch=layout.global_batch, wanted=BATCH,
        ),
    )  # fmt: skip
    check.unless(
        needs > limit_gib,
        _("{asked}: the layout fits", asked=asked),
        hint=_(
            "Your function returns {layout}, which needs {needs:.1f} GiB by the plan.",
            layout=_shown(case), needs=needs,
        ),
    )  # fmt: skip
    check.that(
        plan.time_to_report_s <= best.time_to_report_s,
        _("{asked}: no layout that fits is faster", asked=asked),
        hint=_(
            "Your function returns {layout}, with {seconds:.0f} s. {better} also fits and takes "
            "{fewer:.0f} s. Does your search try this layout? Does it compare times?",
            layout=_shown(case), seconds=plan.time_to_report_s,
            better=_shown(best.case), fewer=best.time_to_report_s,
        ),
    )  # fmt: skip


def _case(answer: Any) -> bench.Case:
    case = answer.case if isinstance(answer, bench.Result) else answer
    if not isinstance(case, bench.Case):
        raise TypeError(_("return a case, as bench.case(…).but(…) gives it"))
    return case


def _shown(case: bench.Case) -> str:
    layout = case.layout
    return _(
        "tensor {tensor} × pipeline {pipeline} with micro batch {micro_batch}",
        tensor=layout.tensor, pipeline=layout.pipeline, micro_batch=layout.micro_batch,
    )  # fmt: skip


def _fitting(nodes: int, limit_gib: float) -> Iterator[bench.Result]:
    """Plan each layout of the exercise, and yield the plans that fit."""
    devices = nodes * LARGE.devices_per_node
    stages = [one for one in range(1, LARGE.model.layers + 1) if LARGE.model.layers % one == 0]
    for tensor, pipeline, micro_batch in product(TENSOR, stages, MICRO_BATCH):
        samples = micro_batch * (devices // (tensor * pipeline))
        if devices % (tensor * pipeline) or not samples or BATCH % samples:
            continue
        case = LARGE.but(
            nodes=nodes, tensor=tensor, pipeline=pipeline, micro_batch=micro_batch,
            accumulation=BATCH // samples,
        )  # fmt: skip
        plan = bench.plan(case)
        if plan.estimate and plan.estimate.device_gib <= limit_gib:
            yield plan


def ex15_other(result: Any, mine: Any, shorter: Any) -> None:
    """Check a measured run with tensor parallelism alone, and which of two runs was faster."""
    with Checklist("15.2") as check:
        check.answered(result, "other")
        _measured(check, result)
        check.succeeded(result.run)
        world = check.left(result.run, "log").world
        check.that(
            world.tensor is not None and world.tensor == world.world_size and world.pipeline == 1,
            _("all devices form one tensor group"),
            hint=_(
                "The log of {name} says: {world}. Tensor × pipeline × data is {world_size}, the "
                "number of devices. Which of the three are 1?",
                name=result.run.name,
                world=world,
                world_size=world.world_size,
            ),
        )
        usual = bench.CASES["box"].layout.global_batch
        batch_is(check, result.run, usual)
        check.answered(shorter, "shorter")
        if isinstance(shorter, str):
            named = {"mine": mine, "other": result}
            shorter = named.get(shorter.strip().lower(), shorter)
        for one in (mine, shorter):
            _measured(check, one)
        fastest_s = min(mine.time_to_report_s, result.time_to_report_s)
        check.that(
            shorter.time_to_report_s == fastest_s,
            _("your answer reports the shorter time"),
            hint=_(
                "Your answer reports {time_to_report_s:.1f} s, and the other result reports "
                "{fastest_s:.1f} s.",
                time_to_report_s=shorter.time_to_report_s,
                fastest_s=fastest_s,
            ),
        )


def _measured(check: Checklist, result: Any) -> None:
    check.needs(
        isinstance(result, bench.Result),
        _("the answer is a result"),
        hint=what_it_is(result, _("give the check what bench.run(…) returned")),
    )
    check.needs(
        result.how == "measured",
        _("the case was run, not only planned"),
        hint=_("This result is {how}. Use bench.run(lab, …).", how=result.how),
    )
