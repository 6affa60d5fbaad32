"""Checks of lesson 15, the benchmark at scale."""

from __future__ import annotations

from typing import Any

from course_lib.lab import bench
from course_lib.teach.answers import Amount, in_other_unit, only_one, text_in, what_it_is
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import batch_is, fits
from course_lib.words import _

NODES, BATCH = 64, 96
ITERATION_S = 5.2
# Relative tolerance of a number computed by hand.
CLOSE_ENOUGH = 0.005


def ex15_week(case: Any) -> None:
    """Check a case for 175 B on 64 nodes: it divides evenly, fits, and keeps its batch."""
    with Checklist("15.1") as check:
        check.answered(case, "week")
        case = only_one(case)
        case = case.case if isinstance(case, bench.Result) else case
        check.that(
            isinstance(case, bench.Case),
            _("it is a case of the benchmark"),
            hint=_(
                "This is {name}. Fill all gaps of bench.case(…).but(…). {case}",
                name=type(case).__name__,
                case=what_it_is(case, _("a case is asked for")),
            ),
        )
        check.that(
            case.tag == "175",
            _("it is the 175 B model"),
            hint=_(
                "This is the model of {title}; the exercise asks for the 175 B model.",
                title=case.title,
            ),
        )
        layout = case.layout
        check.that(
            (case.nodes, layout.micro_batch) == (NODES, 1),
            _("it uses {nodes} nodes, with a micro batch of 1", nodes=NODES),
            hint=_(
                "It uses {nodes}, with a micro batch of {micro_batch}. Give nodes={wanted} to "
                "but(…), and leave micro_batch as the case has it.",
                nodes=case.nodes,
                micro_batch=layout.micro_batch,
                wanted=NODES,
            ),
        )
        check.that(
            layout.global_batch == BATCH,
            _("its global batch is {batch}", batch=BATCH),
            hint=_(
                "Tensor {tensor} × pipeline {pipeline} leave a data-parallel size of "
                "{data}, and each data rank takes accumulation {micro_batches} samples: "
                "{global_batch} in all. Which accumulation makes it {batch}?",
                tensor=layout.tensor,
                pipeline=layout.pipeline,
                data=layout.data,
                micro_batches=layout.micro_batches,
                global_batch=layout.global_batch,
                batch=BATCH,
            ),
        )
        estimate = bench.plan(case).estimate
        assert estimate is not None
        fits(check, estimate)


def ex15_report(answer: object) -> None:
    """Check the conversion from seconds per iteration to the time to report."""
    reference = bench.CASES["175"]
    layout, sequence = reference.layout, reference.model.sequence
    rate = layout.global_batch * sequence / ITERATION_S
    right = bench.time_to_report_s(rate)
    with Checklist("15.2") as check:
        check.amount(
            check.number(answer, "report_s"),
            Amount(
                right=right,
                unit="s",
                share=CLOSE_ENOUGH,
                slips=(
                    in_other_unit(right, "s", "minutes"),
                    (right / ITERATION_S, _("That is the number of iterations, not their time.")),
                    (
                        right / layout.micro_batches / layout.data,
                        _("The global batch already counts all micro-batches and all data ranks."),
                    ),
                    (right * 2**20 / 1e6, _("20 million are 20 × 10⁶, not 20 × 2²⁰.")),
                ),
            ),
            _("it is the time that is reported"),
            hint=_(
                "Tokens per second first: batch × sequence ÷ {iteration_s} s; then 20 "
                "million tokens at that rate.",
                iteration_s=ITERATION_S,
            ),
        )


def ex15_other(result: Any, mine: Any, shorter: Any) -> None:
    """Check a measured run with tensor parallelism alone, and which of two was faster."""
    with Checklist("15.3") as check:
        check.answered(result, "other")
        _measured(check, result)
        check.succeeded(result.run)
        world = check.left(result.run, "log").world
        check.that(
            world.tensor is not None and world.tensor == world.world_size and world.pipeline == 1,
            _("all devices form one tensor group"),
            hint=_(
                "The log of {name} says: {world}. Tensor × pipeline × data are the "
                "{world_size} devices; which of them are 1?",
                name=result.run.name,
                world=world,
                world_size=world.world_size,
            ),
        )
        usual = bench.CASES["box"].layout.global_batch
        batch_is(check, result.run, usual, world.world_size)
        check.answered(shorter, "shorter")
        named = {"mine": mine, "other": result}
        said = text_in(shorter)
        shorter = named.get((said or "").strip().lower(), only_one(shorter))
        check.unless(
            isinstance(shorter, str),
            _("the answer is one of the two results"),
            hint=_("It is the text {said!r} now. Say mine or other.", said=said),
        )
        for one in (mine, shorter):
            _measured(check, one)
        fastest_s = min(mine.time_to_report_s, result.time_to_report_s)
        check.that(
            shorter.time_to_report_s == fastest_s,
            _("it reports the shorter time"),
            hint=_(
                "It reports {time_to_report_s:.1f} s, and the other {fastest_s:.1f} s.",
                time_to_report_s=shorter.time_to_report_s,
                fastest_s=fastest_s,
            ),
        )


def _measured(check: Checklist, result: Any) -> None:
    check.unless(
        not isinstance(result, bench.Result),
        _("it is a result"),
        hint=_(
            "This is {name}: give the check what bench.run(…) returned.", name=type(result).__name__
        ),
    )
    check.unless(
        result.how != "measured",
        _("it was run, not planned"),
        hint=_("This result is {how}. Use bench.run(lab, …).", how=result.how),
    )
