"""Lesson 15, the benchmark at scale."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from course_lib.lab import bench
from course_lib.teach.answers import close, number_written, only_one, text_in, what_it_is
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import global_batch
from course_lib.teach.slips import Quantity

NODES, BATCH = 64, 96
ITERATION_S = 5.2
DENIED = re.compile(r"\b(?:not|no|longer|slower|than)\b", re.IGNORECASE)
LESS = re.compile(r"(mine|other)\s*<\s*(?:mine|other)", re.IGNORECASE)
PUBLISHED_S = 554.70
CLOSE_ENOUGH = 0.005
"""Share by which a number worked out by hand may be off."""


def ex15_week(case: Any) -> None:
    """175 B on 64 nodes: divides, fits, keeps its batch."""
    with Checklist("15.1") as check:
        check.answered(case, "week")
        case = only_one(case)
        case = case.case if isinstance(case, bench.Result) else case
        check.that(
            isinstance(case, bench.Case),
            "it is a case of the benchmark",
            hint=f"This is {type(case).__name__}. Fill all gaps of bench.case(…).but(…). "
            f"{what_it_is(case, 'a case is asked for')}",
        )
        check.that(
            case.tag == "175",
            "it is the 175 B model",
            hint=f"This is the model of {case.title}; the week is for the one that counts.",
        )
        check.that(
            case.nodes == NODES,
            f"it uses {NODES} nodes",
            hint=f"It uses {case.nodes}: give nodes={NODES} to but(…).",
        )
        _keeps_its_batch(check, case)
        _fits(check, case)


def _keeps_its_batch(check: Checklist, case: bench.Case) -> None:
    layout = case.layout
    check.that(
        layout.micro_batch == 1,
        "its micro batch is 1",
        hint=f"It is {layout.micro_batch}. Leave micro_batch as the case has it.",
    )
    check.that(
        layout.global_batch == BATCH,
        f"its global batch is {BATCH}",
        hint=f"Tensor {layout.tensor} × pipeline {layout.pipeline} leave a data-parallel size of "
        f"{layout.data}, and each data rank takes accumulation {layout.micro_batches} samples: "
        f"{layout.global_batch} in all. Which accumulation makes it {BATCH}?",
    )


def _fits(check: Checklist, case: bench.Case) -> None:
    estimate = bench.plan(case).estimate
    assert estimate is not None
    part, size = max(estimate.fullest.parts.items(), key=lambda part: part[1])
    check.that(
        estimate.fits,
        "it fits into the memory of a device",
        hint=f"The fullest device needs {estimate.device_gib:.1f} of "
        f"{estimate.capacity_gib:.1f} GiB, the largest part of it {part} "
        f"({size / 2**30:.1f} GiB). More tensor or pipeline ranks make every share smaller.",
    )


def ex15_report(answer: object) -> None:
    """From seconds per iteration to the time to report."""
    with Checklist("15.2") as check:
        check.amount(
            check.number(answer, "report_s"),
            _time_to_report(),
            "it is the time that is reported",
            hint=f"Tokens per second first: batch × sequence ÷ {ITERATION_S} s; then 20 million "
            "tokens at that rate.",
        )


def _time_to_report() -> Quantity:
    reference = bench.CASES["175"]
    layout, sequence = reference.layout, reference.model.sequence
    nodes, devices = reference.nodes, reference.nodes * reference.devices_per_node
    rate = layout.global_batch * sequence / ITERATION_S
    right = bench.time_to_report_s(rate)
    steps, ranks = layout.micro_batches, layout.data
    twice = (
        f"The global batch of {layout.global_batch} has the {steps} micro-batches and the {ranks} "
        "data ranks in it already."
    )
    own = (
        (right * sequence, f"A sample of this model is a sequence of {sequence} tokens."),
        *((right / more, twice) for more in (steps, ranks, steps * ranks)),
        (rate, f"{rate:.0f} are the tokens per second. How long do 20 million take?"),
        (right / ITERATION_S, f"These are iterations. Each of them takes {ITERATION_S} s."),
        (ITERATION_S, "That is one iteration. How many are 20 million tokens?"),
        (right * 2**20 / 1e6, "20 million are 20 × 10⁶, not 20 × 2²⁰."),
        (right / 2, f"A sequence of this model has {sequence} tokens."),
        (right * 2, f"A sequence of this model has {sequence} tokens."),
        *(
            (right * many, f"You multiplied by {many}. The 5.2 s are those of all together.")
            for many in (nodes, devices)
        ),
        *(
            (right / many, f"You divided by {many}. The 5.2 s are those of all together.")
            for many in (nodes, devices)
        ),
        (right * ranks, twice),
        (right * steps, twice),
        (
            right / 4,
            f"That is with one sample on each of {devices} devices. The global batch is "
            f"{layout.global_batch}.",
        ),
        (right / ITERATION_S**2, f"An iteration takes {ITERATION_S} s: you divided by it twice."),
        (right * layout.global_batch / 1024, "1024 is the global batch of the 13 B model."),
        (20e6, "These are the tokens. How long do they take?"),
        (20e6 / ITERATION_S, "An iteration sees many tokens at once. How many?"),
        (round(right / ITERATION_S) * 5, "5.2 s was rounded to 5."),
        (right / ITERATION_S * 6, "5.2 s was rounded to 6."),
        (right * layout.global_batch, "That is with one sample per iteration."),
    )
    known = {
        "what the published run reported": PUBLISHED_S,
        "what was planned": bench.plan("175").time_to_report_s,
        "the longest time that passes": bench.ACCEPTED_S["175"],
        "the share of the longest time that passes": right / bench.ACCEPTED_S["175"],
    }
    return Quantity(right=right, unit="s", share=CLOSE_ENOUGH, own=own, known=known)


def ex15_other(result: Any, mine: Any, shorter: Any) -> None:
    """The box's model for real, with tensor parallelism alone, and which of two was faster."""
    with Checklist("15.3") as check:
        check.answered(result, "other")
        _measured(check, result)
        check.succeeded(result.run)
        world, batch = check.left(result.run, "log").world, global_batch(result.run)
        check.that(
            world.tensor is not None and world.tensor == world.world_size and world.pipeline == 1,
            "all devices form one tensor group",
            hint=f"The log of {result.run.name} says: {world}. Tensor × pipeline × data are the "
            f"{world.world_size} devices; which of them are 1?",
        )
        usual = bench.CASES["box"].layout.global_batch
        check.that(
            batch == usual,
            f"its global batch is {usual}",
            hint=f"The iteration lines say {batch}. With one data rank the batch is micro batch × "
            "accumulation.",
        )
        check.answered(shorter, "shorter")
        shorter = _meant(shorter, {"mine": mine, "other": result})
        check.unless(
            text_in(shorter) is not None,
            "one of the two is named",
            hint=f"It is the text {text_in(shorter)!r} now. Say mine or other.",
        )
        for each in (mine, shorter):
            _measured(check, each)
        fastest_s = min(mine.time_to_report_s, result.time_to_report_s)
        check.that(
            shorter.time_to_report_s == fastest_s,
            "it reports the shorter time",
            hint=f"It reports {shorter.time_to_report_s:.1f} s, and the other {fastest_s:.1f} s.",
        )


def _meant(answer: Any, results: dict[str, Any]) -> Any:
    """The result that somebody hands in, or names, or whose run, case or time it is."""
    said = text_in(answer)
    if said is not None and (named := _named(said, results)):
        return results[named[0]] if len(named) == 1 and not DENIED.search(said) else answer
    if isinstance(answer, tuple) and len(answer) > 1:  # min((time, "mine"), (time, "other"))
        parts = [_meant(part, results) for part in answer]
        return parts[0] if all(part is parts[0] for part in parts) else answer
    answer = only_one(answer)
    wanted = "case" if isinstance(answer, bench.Case) else "run"
    of = [each for each in results.values() if _is_of(answer, each, wanted)]
    return of[0] if len(of) == 1 else _of_this_time(answer, results.values())


def _is_of(answer: Any, result: Any, wanted: str) -> bool:
    has = getattr(result, wanted, None)
    return answer is result or answer is has or (wanted == "case" and bool(answer == has))


def _named(said: str, results: dict[str, Any]) -> list[str]:
    """Which of the results a text names; of "mine < other" the first."""
    if found := LESS.fullmatch(said.strip()):
        return [found[1].lower()]
    return [
        name
        for name, one in results.items()
        if re.search(rf"\b{name}\b", said, re.IGNORECASE) or _run_of(one) == said.strip()
    ]


def _run_of(result: Any) -> str | None:
    return getattr(getattr(result, "run", None), "name", None)


def _of_this_time(answer: Any, results: Iterable[Any]) -> Any:
    """The result that reports so many seconds, if the answer is its time."""
    seconds = number_written(answer)
    known = [one for one in results if isinstance(one, bench.Result)]
    if seconds is None or not known:
        return answer
    nearest = min(known, key=lambda one: abs(one.time_to_report_s - seconds))
    return nearest if close(seconds, nearest.time_to_report_s, CLOSE_ENOUGH) else answer


def _measured(check: Checklist, result: Any) -> None:
    check.unless(
        not isinstance(result, bench.Result),
        "it is a result",
        hint=f"This is {type(result).__name__}: give the check what bench.run(…) returned.",
    )
    check.unless(
        result.how != "measured",
        "it was run, not planned",
        hint=f"This result is {result.how}. Use bench.run(lab, …).",
    )
