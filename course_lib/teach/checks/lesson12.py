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
    critical, larger = model.critical, AFTER / BEFORE
    least = model.steps / (1 + critical / BEFORE)
    right = least * (1 + critical / AFTER)
    times = right * larger / model.steps
    eighth = _(
        "An eightfold batch needs an eighth of the steps only if both batches are far below the "
        "critical batch."
    )
    upside_down = _("B_c / B is upside down: a larger batch needs fewer steps.")
    of_steps = (
        (model.steps / larger, eighth),
        (model.steps * (1 + critical / AFTER), _("The known number of steps is not S_min.")),
        (model.steps * (1 + AFTER / critical) / (1 + BEFORE / critical), upside_down),
        (least, _("That is S_min, for an infinitely large batch.")),
    )
    per_step = _("That compares the steps. A step now takes eight times the tokens.")
    of_tokens = (
        (times / larger, per_step),
        (larger, _("That is the factor for one step, but there are fewer steps.")),
        (times - 1, _("That is the increase. By what factor do the tokens grow?")),
    )
    with Checklist("12.2") as check:
        given = check.number(steps, "steps_needed")
        costs = check.number(tokens, "times_the_tokens")
        check.amount(
            given,
            Amount(right=right, unit=N_("steps"), slips=of_steps),
            _("the number of steps leads to the same loss"),
            hint=_("First find S_min from the known run. Its steps are S_min (1 + B_c / B)."),
        )
        check.amount(
            costs,
            Amount(right=times, slips=of_tokens),
            _("the factor of the tokens is right"),
            hint=_("Tokens are steps × batch. Work them out for both batches."),
        )


def ex12_sixteen(run: Any, base: Any) -> None:
    """Check a run with 16 times the batch on four devices and the same number of samples."""
    with Checklist("12.3") as check:
        for one, what in ((run, _("the run")), (base, _("the run with the small batch"))):
            check.started(one, "scale_batch.py", what)
        has_devices(check, run, 2, 2)
        batch_is(check, run, BATCH)
        lines, of_base = run.log.iterations, base.log.iterations
        grew = lines["learning_rate"].max() / of_base["learning_rate"].max()
        check.that(
            close(grew, sqrt(TIMES_THE_BATCH), 0.02),
            _("the learning rate grew by the square root of {times}", times=TIMES_THE_BATCH),
            hint=_(
                "The rate is {grew:.3g} times the rate of {name}. For Adam it grows once, by --lr "
                "or by --lr-scaling, with the square root of the factor of the batch.",
                grew=grew,
                name=base.name,
            ),
        )
        check.that(
            whole_flag(run, "--warmup-samples") > 0,
            _("the learning rate was warmed up"),
            hint=_("--warmup-samples is missing or 0, so the first step used the full rate."),
        )
        decay = run.recipe.flags.get("--lr-decay-style", "linear")
        check.equal(decay, "linear", "--lr-decay-style")
        seen, wanted = (int(one["consumed_samples"].max()) for one in (lines, of_base))
        check.that(
            close(seen, wanted, 0.01),
            _("the run saw as many samples as {name}", name=base.name),
            hint=_(
                "Your run saw {seen:,} samples, but the run with small batches saw {wanted:,}. "
                "Keep --samples as it is. A larger batch needs fewer steps for the same samples.",
                seen=seen,
                wanted=wanted,
            ),
        )
        losses = [one["validation_loss"].iloc[-1] for one in (lines, of_base)]
        check.that(
            losses[0] - losses[1] < LITTLE,
            _("the run learned about as much in a sixteenth of the steps"),
            hint=_(
                "Its validation loss ends {apart:.2f} higher. Is something else different: "
                "--lr, --width, --seed, the text?",
                apart=losses[0] - losses[1],
            ),
        )
