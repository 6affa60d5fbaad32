"""Checks of lesson 12, large batches."""

from __future__ import annotations

from math import sqrt
from typing import Any

from course_lib.teach.answers import Amount, close
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import batch_is, has_devices, whole_flag
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

# Batches of exercise 12.2, in millions of tokens.
BEFORE, AFTER = 0.5, 4

BATCH, DEVICES, TIMES_THE_BATCH = 256, 4, 16

# Allowed difference between two losses, in nats. A wrong learning rate costs more.
LITTLE = 0.25

ex12_noise = tried("12.1", "noise")


def ex12_cost(steps: object, tokens: object, model: Any) -> None:
    """Check how many steps an eightfold batch saves, and how many tokens it costs."""
    least, larger = model.steps / (1 + model.critical / BEFORE), AFTER / BEFORE
    right = least * (1 + model.critical / AFTER)
    times = right * larger / model.steps
    with Checklist("12.2") as check:
        given = check.number(steps, "steps_needed")
        costs = check.number(tokens, "times_the_tokens")
        check.amount(
            given,
            Amount(
                right=right,
                unit=N_("steps"),
                slips=(
                    (
                        model.steps / larger,
                        _(
                            "An eightfold batch needs an eighth of the steps only if both batches "
                            "are far below the critical batch."
                        ),
                    ),
                    (
                        model.steps * (1 + model.critical / AFTER),
                        _(
                            "The known number of steps is not S_min. It contains its own factor 1 "
                            "+ B_c / B."
                        ),
                    ),
                    (
                        model.steps * (1 + AFTER / model.critical) / (1 + BEFORE / model.critical),
                        _("B_c / B is upside down: a larger batch needs fewer steps."),
                    ),
                    (least, _("That is S_min, for an infinitely large batch.")),
                ),
            ),
            _("the number of steps leads to the same loss"),
            hint=_("First find S_min from the known run. Its steps are S_min (1 + B_c / B)."),
        )
        check.amount(
            costs,
            Amount(
                right=times,
                slips=(
                    (
                        times / larger,
                        _("That compares the steps. A step now takes eight times the tokens."),
                    ),
                    (larger, _("That is the factor for one step, but there are fewer steps.")),
                    (
                        1 + AFTER / model.critical,
                        _(
                            "That compares with the fewest tokens, which tiny batches need. "
                            "Compare with the batch of 0.5 million."
                        ),
                    ),
                    (times - 1, _("That is the increase. By what factor do the tokens grow?")),
                ),
            ),
            _("the factor of the tokens is right"),
            hint=_("Tokens are steps × batch. Work them out for both batches."),
        )


def ex12_sixteen(run: Any, base: Any) -> None:
    """Check a run with 16 times the batch on four devices and the same number of samples."""
    with Checklist("12.3") as check:
        for one, what in ((run, _("the run")), (base, _("the run with the small batch"))):
            check.started(one, "scale_batch.py", what)
            check.trained(one, what)
        has_devices(check, run, 2, 2)
        batch_is(check, run, BATCH, DEVICES)
        _rate(check, run, base)
        check.that(
            whole_flag(run, "--warmup-samples") > 0,
            _("the learning rate was warmed up"),
            hint=_("--warmup-samples is missing or 0, so the first step used the full rate."),
        )
        _same_training(check, run, base)


def _rate(check: Checklist, run: Any, base: Any) -> None:
    rates = [one.log.iterations["learning_rate"] for one in (run, base)]
    grew, wanted = rates[0].max() / rates[1].max(), sqrt(TIMES_THE_BATCH)
    said = {
        1: _(
            "The rate did not change. The steps are as short as before, but their number is only a "
            "sixteenth."
        ),
        TIMES_THE_BATCH: _(
            "The rate grew with the batch itself, as for SGD, or twice, by --lr and by "
            "--lr-scaling. For Adam, scale it once, with the square root."
        ),
        2: _(
            "That is the square root of 4, the number of devices. By what factor did the batch "
            "grow?"
        ),
    }
    near = next((words for times, words in said.items() if close(grew, times, 0.02)), "")
    check.that(
        close(grew, wanted, 0.02),
        _(
            "the learning rate grew by {wanted:g}, the square root of {times_the_batch}",
            wanted=wanted,
            times_the_batch=TIMES_THE_BATCH,
        ),
        hint=_(
            "The rate is {grew:.3g} times the rate of {name}. {value}",
            grew=grew,
            name=base.name,
            value=near or _("Leave --lr as it is, and choose its --lr-scaling."),
        ),
    )


def _same_training(check: Checklist, run: Any, base: Any) -> None:
    seen, wanted = (int(one.log.iterations["consumed_samples"].max()) for one in (run, base))
    more = (
        _("With the same number of steps, the run sees sixteen times as many samples.")
        if seen > wanted
        else _("Keep --samples as it is for a larger batch.")
    )
    check.that(
        close(seen, wanted, 0.01),
        _("the run saw as many samples as {name}", name=base.name),
        hint=_(
            "Your run saw {seen:,} samples, but the run with small batches saw {wanted:,}. {more}",
            seen=seen,
            wanted=wanted,
            more=more,
        ),
    )
    losses = [one.log.iterations["validation_loss"] for one in (run, base)]
    apart = losses[0].iloc[-1] - losses[1].iloc[-1]
    check.that(
        apart < LITTLE,
        _("the run learned about as much in a sixteenth of the steps"),
        hint=_(
            "Its validation loss ends {apart:.2f} higher. Is something else different: "
            "--lr, --width, --seed, the text?",
            apart=apart,
        ),
    )
