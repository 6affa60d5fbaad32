"""Lesson 17, the challenge."""

from __future__ import annotations

from typing import Any

from course_lib import plan
from course_lib.lab.job.unfinished import Unfinished
from course_lib.plan.estimate import Estimate
from course_lib.plan.mixtures import MixtureBounds
from course_lib.teach.challenge.score import Score
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks import lesson17_numbers as by_hand
from course_lib.teach.checks.common import global_batch, whole_flag
from course_lib.teach.checks.lesson17_numbers import MOST_DAYS, MOST_DEVICES, TOKENS

FORESEEN = 1.5
"""Factor by which a time may be foreseen wrongly."""
LARGE_BATCH, LOW_RATE, HIGH_RATE = 48, 1e-3, 1.2e-2
LEAST_BATCH_TOKENS, MOST_BATCH_TOKENS = 0.5e6, 20e6


def ex17_mine(run: Any, score: Any, other: Any) -> None:
    """A run that reaches the target, foreseen, and cheaper than the one by habit."""
    with Checklist("17.1") as check:
        check.trained(run, "your run")
        check.answered(score, "score")
        check.unless(
            not isinstance(score, Score) or not isinstance(other, Score),
            "it has a score",
            hint="Give the check what task.score(…) returned, of both runs.",
        )
        check.unless(
            score.job_id != run.job_id,
            "the score is that of your run",
            hint=f"It is of job {score.job_id}, and your run is job {run.job_id}. Run the cell "
            "that scores it once more.",
        )
        check.that(score.counts, "the run counts", hint="\n".join(score.noticed))
        check.that(
            score.reached,
            f"it reaches a held-out loss of {score.target:g}",
            hint=f"Its held-out loss is {score.loss:.2f}. {_why_so_high(run, score)}",
        )
        check.that(
            score.off_by <= FORESEEN,
            f"you foresaw its time within a factor of {FORESEEN:g}",
            hint=_why_so_long(run, score),
        )
        check.that(
            score.device_minutes < other.device_minutes,
            f"it takes fewer device-minutes than {other.run}",
            hint=f"It takes {score.device_minutes:.2f}, the other {other.device_minutes:.2f}. "
            "Fewer devices, or fewer tokens? Look at the parts of an iteration in the plan.",
        )


def _why_so_high(run: Any, score: Score) -> str:
    flags, batch = run.recipe.flags, global_batch(run) or 1
    rate = float(flags.get("--lr", 1e-3))
    steps = whole_flag(run, "--train-iters")
    if batch >= LARGE_BATCH:
        return (
            f"Batches of {batch} made {steps} steps of {score.tokens:,} tokens. This model's "
            "critical batch is smaller than that: the same tokens in smaller batches teach more."
        )
    if rate < LOW_RATE:
        return f"A learning rate of {rate:g} is low for a model of this width: see the probes."
    if rate > HIGH_RATE:
        return f"A learning rate of {rate:g} is high for a model of this width: see the probes."
    return (
        f"It has seen {score.tokens:,} tokens. Draw the line through the losses of the two probes "
        "over the logarithm of their tokens: where does it reach the target?"
    )


def _why_so_long(run: Any, score: Score) -> str:
    elapsed = run.log.iterations["elapsed_ms"]
    steps = whole_flag(run, "--train-iters")
    training_s = float(elapsed.median()) * steps / 1e3
    around_s = max(0.0, score.seconds - training_s)
    return (
        f"You foresaw {score.foreseen:.0f} s, and it took {score.seconds:.0f}: {steps} iterations "
        f"{training_s:.0f} s, start and end {around_s:.0f} s. Which of the two did you miss?"
    )


def ex17_dense(least_days: object, estimate: Any) -> None:
    """70 B on paper: a bound by hand, and a plan that respects it."""
    with Checklist("17.2") as check:
        given = check.number(least_days, "least_days")
        check.amount(
            given,
            by_hand.least_days(),
            "no plan on 1024 H100 can be faster than that",
            hint="6 FLOPs for each parameter and token, divided by the peak of all devices and by "
            "86,400 s.",
        )
        _is_a_plan(check, estimate, Estimate, "plan.predict(model, layout, cluster)")
        check.that(
            estimate.model.but(name="") == plan.preset("llama-70b").but(name=""),
            "it is a plan for llama-70b",
            hint=f'It is for {estimate.model.name}. Take plan.preset("llama-70b") as it is.',
        )
        _on_paper(check, estimate)
        check.that(
            estimate.fits,
            "it fits into the memory of a device",
            hint=f"Planned are {estimate.device_gib:.1f} of {estimate.capacity_gib:.1f} GiB. What "
            "is cut finer by tensor, pipeline, ZeRO or recomputation?",
        )
        check.that(
            estimate.days(TOKENS) <= MOST_DAYS,
            f"2 trillion tokens take at most {MOST_DAYS} days",
            hint=f"They take {estimate.days(TOKENS):.0f} days, at {estimate.mfu:.0%} of the peak. "
            "plan.search(…) ranks the layouts of a machine; is this machine large enough?",
        )


def _is_a_plan(check: Checklist, given: Any, kind: type, how: str) -> None:
    check.answered(given, "the plan")
    if isinstance(given, Unfinished):
        check.answered(..., ", ".join(given.missing))
    check.unless(
        not isinstance(given, kind),
        "it is a plan",
        hint=f"This is {type(given).__name__}. The check wants what {how} returns.",
    )


def _on_paper(check: Checklist, estimate: Estimate) -> None:
    """What a planner does not refuse, and nobody could buy or would pay for."""
    device = estimate.cluster.device
    check.that(
        plan.DEVICES.get(device.name) == device,
        "its devices exist",
        hint=f"{device.name} of this plan is not as plan.DEVICES has it. Take a machine of "
        "plan.CLUSTERS: plan.cluster(name, devices=…).",
    )
    check.that(
        estimate.layout.devices <= MOST_DEVICES,
        f"it asks for at most {MOST_DEVICES} devices",
        hint=f"It asks for {estimate.layout.devices}.",
    )
    tokens = estimate.tokens
    small = (
        "steps would be many and short"
        if tokens < LEAST_BATCH_TOKENS
        else ("such a batch is far beyond the critical one, and most of its samples teach nothing")
    )
    check.that(
        LEAST_BATCH_TOKENS <= tokens <= MOST_BATCH_TOKENS,
        "its batch is one with which such models are trained",
        hint=f"A batch has {tokens:,} tokens: {small}. Published trainings of this size take 1 to "
        "16 million.",
    )


def ex17_mixture(total: object, active: object, bounds: Any) -> None:
    """Parameters of a mixture by hand, and a plan for it."""
    with Checklist("17.3") as check:
        given, passed = (
            check.number(total, "total_billions"),
            check.number(active, "active_billions"),
        )
        check.amount(
            given,
            by_hand.total(),
            "so many parameters have to be held",
            hint="Attention and tables once; in each of 56 layers 8 experts of three matrices "
            "6144 × 16384, and a router of 6144 × 8.",
        )
        check.amount(
            passed,
            by_hand.active(),
            "so many of them work for a token",
            hint="The same with 2 experts in each layer instead of 8.",
        )
        _is_a_plan(check, bounds, MixtureBounds, "plan.mixture(…).predict(…)")
        check.that(
            bounds.mixture == plan.mixture("mixtral-8x22b"),
            "it is a plan for mixtral-8x22b",
            hint=f"It is for {bounds.mixture.name}.",
        )
        _on_paper(check, bounds.twin)
        check.that(
            bounds.fits is True,
            "it fits also where experts are chosen unevenly",
            hint=f"It needs {bounds.low_gib:.1f} to {bounds.high_gib:.1f} GiB of "
            f"{bounds.twin.capacity_gib:.1f}. More expert ranks hold fewer experts each; more "
            "pipeline ranks hold fewer layers.",
        )
        slow_days = bounds.days(TOKENS)[1]
        check.that(
            slow_days <= MOST_DAYS,
            f"2 trillion tokens take at most {MOST_DAYS} days, in the slowest case too",
            hint=f"In the slowest case they take {slow_days:.0f}. How long is the exchange "
            f"({bounds.exchange_s:.2f} s of an iteration), and does it leave the node?",
        )
