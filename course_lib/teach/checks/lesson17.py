"""Checks of lesson 17, the challenge."""

from __future__ import annotations

from typing import Any

from course_lib import plan
from course_lib.plan.estimate import Estimate
from course_lib.teach.answers import Amount, in_other_unit, what_it_is
from course_lib.teach.challenge.score import Score
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import global_batch, whole_flag
from course_lib.words import N_, _

# Factor by which a predicted time may be off.
FORESEEN = 1.5
LEAST_BATCH_TOKENS, MOST_BATCH_TOKENS = 0.5e6, 20e6
# Limits of the plans on paper.
TOKENS, MOST_DAYS, MOST_DEVICES = 2e12, 90, 1024
H100_TFLOPS, A100_TFLOPS = 989, 312


def ex17_mine(run: Any, score: Any, other: Any) -> None:
    """Check a run that reaches the target, was predicted, and costs less than the habitual run."""
    with Checklist("17.1") as check:
        check.trained(run, _("your run"))
        check.answered(score, "score")
        check.needs(
            isinstance(score, Score) and isinstance(other, Score),
            _("the run has a score"),
            hint=_("Give the check what task.score(…) returned for both runs."),
        )
        check.needs(
            score.job_id == run.job_id,
            _("the score belongs to your run"),
            hint=_(
                "The score belongs to job {score.job_id}, but your run is job {run.job_id}. Run "
                "the cell that scores the run once more.",
                score=score,
                run=run,
            ),
        )
        check.that(score.counts, _("the run counts"), hint="\n".join(score.broken_rules))
        check.that(
            score.reached,
            _("the run reaches a held-out loss of {target:g}", target=score.target),
            hint=_(
                "The held-out loss is {score.loss:.2f} after {score.tokens:,} tokens in batches of "
                "{batch}. Draw the line through the losses of the two probes over the logarithm of "
                "their tokens. Where does this line reach the target? Beyond the critical batch, "
                "the same tokens in smaller batches teach more.",
                score=score,
                batch=global_batch(run),
            ),
        )
        steps = whole_flag(run, "--train-iters")
        training_s = float(run.log.iterations["elapsed_ms"].median()) * steps / 1e3
        check.that(
            score.off_by <= FORESEEN,
            _("you predicted its time within a factor of {foreseen:g}", foreseen=FORESEEN),
            hint=_(
                "You predicted {score.foreseen:.0f} s, and it took {score.seconds:.0f}: {steps} "
                "iterations took {training_s:.0f} s, start and end {around_s:.0f} s. Which of "
                "these did you misjudge?",
                score=score,
                steps=steps,
                training_s=training_s,
                around_s=max(0.0, score.seconds - training_s),
            ),
        )
        check.that(
            score.device_minutes < other.device_minutes,
            _("the run takes fewer device-minutes than {run}", run=other.run),
            hint=_(
                "Your run takes {score.device_minutes:.2f} device-minutes, and the other run takes "
                "{other.device_minutes:.2f}. Would fewer devices help, or fewer tokens? Look at "
                "the parts of an iteration in the plan.",
                score=score,
                other=other,
            ),
        )


def ex17_dense(least_days: object, estimate: Any) -> None:
    """Check a 70 B model on paper: a bound by hand, and a plan that respects it."""
    parameters = plan.parameters(plan.preset("llama-70b")).total
    right = 6 * parameters * TOKENS / (MOST_DEVICES * H100_TFLOPS * 1e12) / 86400
    slips = (
        (right * 8 / 6, _("The factor 8 counts a recomputation, which a bound leaves out.")),
        (right * 2 / 6, _("The factor 2 counts the forward pass alone.")),
        (right / 2, _("1,979 TFLOP/s is the peak for sparse matrices. Dense matrices reach 989.")),
        (right * H100_TFLOPS / A100_TFLOPS, _("312 TFLOP/s is the peak of an A100.")),
    )
    with Checklist("17.2") as check:
        check.amount(
            check.number(least_days, "least_days"),
            Amount(right=right, unit=N_("days"), share=0.03, slips=slips),
            _("the answer is the shortest possible time on 1024 H100s"),
            hint=_(
                "Take 6 FLOPs for each parameter and token, and divide by the peak of all "
                "devices and by 86,400 s."
            ),
        )
        _is_plan_for(check, estimate, "llama-70b")
        check.that(
            estimate.days(TOKENS) <= MOST_DAYS,
            _("2 trillion tokens take at most {most_days} days", most_days=MOST_DAYS),
            hint=_(
                "The training takes {tokens:.0f} days, at {mfu:.0%} of the peak. plan.search(…) "
                "ranks the layouts of a machine; is this machine large enough?",
                tokens=estimate.days(TOKENS),
                mfu=estimate.mfu,
            ),
        )


def _is_plan_for(check: Checklist, estimate: Any, name: str) -> None:
    """Refuse plans that the planner accepts but that are unrealistic."""
    check.answered(estimate, _("the plan"))
    check.needs(
        isinstance(estimate, Estimate),
        _("the answer is a plan"),
        hint=what_it_is(estimate, _("give the check what plan.predict(…) returns")),
    )
    check.that(
        estimate.model.but(name="") == plan.preset(name).but(name=""),
        _("the answer is a plan for {name}", name=name),
        hint=_(
            'The plan is for {other}. Use plan.preset("{name}") as it is.',
            other=estimate.model.name,
            name=name,
        ),
    )
    device = estimate.cluster.device
    check.that(
        plan.DEVICES.get(device.name) == device,
        _("its devices exist"),
        hint=_(
            "{name} of this plan differs from plan.DEVICES. Use a machine of plan.CLUSTERS: "
            "plan.cluster(name, devices=…).",
            name=device.name,
        ),
    )
    check.that(
        estimate.layout.devices <= MOST_DEVICES,
        _("the plan uses at most {most_devices} devices", most_devices=MOST_DEVICES),
        hint=_("The plan uses {devices}.", devices=estimate.layout.devices),
    )
    check.that(
        LEAST_BATCH_TOKENS <= estimate.tokens <= MOST_BATCH_TOKENS,
        _("the batch is in the range of published runs"),
        hint=_(
            "A batch has {tokens:,} tokens. With fewer than {least:,.0f}, the steps are many and "
            "short. With more than {most:,.0f}, most samples do not help. Published runs of this "
            "size use 1 to 16 million.",
            tokens=estimate.tokens,
            least=LEAST_BATCH_TOKENS,
            most=MOST_BATCH_TOKENS,
        ),
    )
    part, size = max(estimate.fullest.parts.items(), key=lambda part: part[1])
    check.that(
        estimate.fits,
        _("the plan fits into the memory of a device"),
        hint=_(
            "The fullest device needs {plan.device_gib:.1f} of {plan.capacity_gib:.1f} GiB, and "
            "the largest part is {part} ({size:.1f} GiB). Would tensor, pipeline, ZeRO or "
            "recomputation make this part smaller?",
            plan=estimate,
            part=part,
            size=size / 2**30,
        ),
    )


def ex17_mixture(total: object, active: object, estimate: Any) -> None:
    """Check parameter counts of a mixture computed by hand, and a plan for it."""
    model = plan.preset("mixtral-8x22b")
    all_of_them, used = plan.parameters(model).total / 1e9, plan.active_parameters(model) / 1e9
    with Checklist("17.3") as check:
        given, passed = (
            check.number(total, "total_billions"),
            check.number(active, "active_billions"),
        )
        check.amount(
            given,
            _billions(all_of_them, used, 8),
            _("the number of parameters is right"),
            hint=_(
                "Count attention and tables once. Each of 56 layers has 8 experts with three "
                "matrices of 6144 × 16384, and a router of 6144 × 8. 48 query heads share 8 key "
                "heads and 8 value heads."
            ),
        )
        check.amount(
            passed,
            _billions(used, all_of_them, 2),
            _("the number of active parameters is right"),
            hint=_("Count in the same way, with 2 experts in each layer instead of 8."),
        )
        _is_plan_for(check, estimate, model.name)
        slow_days = estimate.days(TOKENS) * estimate.interval.high / estimate.seconds
        check.that(
            slow_days <= MOST_DAYS,
            _(
                "2 trillion tokens take at most {most_days} days, even at the slow end of the "
                "interval",
                most_days=MOST_DAYS,
            ),
            hint=_(
                "At the slow end of the interval the training takes {slow_days:.0f} days. The "
                "exchange takes {exchange_s:.2f} s of an iteration. Do its groups stay inside a "
                "node?",
                slow_days=slow_days,
                exchange_s=estimate.parts.get("exchange", 0.0),
            ),
        )


def _billions(right: float, other: float, experts: int) -> Amount:
    """Return the parameter count of a mixture: all parameters, or those that a token uses."""
    swapped = _("You swapped total and active parameters. Which experts does this number count?")
    times = _(
        "{experts} × 22 counts attention and tables {experts} times. The experts share them.",
        experts=experts,
    )
    plain = in_other_unit(right, "billions", N_("parameters"))
    slips = ((other, swapped), (experts * 22, times), plain)
    return Amount(right=right, unit=N_("billions"), fine=0.001, slips=slips)
