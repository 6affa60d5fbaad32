"""Lesson 08, mixed precision."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist

LEAST_SCALE, ITERATIONS = 2.0**8, 10
PRINTED_SCALE, SKIPPED = 2**23, 10


def ex08_settled(run: Any) -> None:
    """An fp16 run whose loss scale moves by itself and never had to throw a step away."""
    with Checklist("08.1") as check:
        check.trained(run)
        flags, steps = run.recipe.flags, run.log.iterations
        check.that(
            "--fp16" in flags and run.log.world.precision == "float16",
            "it computed in float16",
            hint=f"Its log says {run.log.world.precision or 'nothing of the precision'}. bfloat16 "
            "needs no scale, which is true and no answer: some devices have only float16.",
        )
        check.that(
            "--loss-scale" not in flags,
            "its loss scale can move by itself",
            hint="--loss-scale sets a fixed one, which nobody raises or lowers when the gradients "
            "change. Choose where the search begins instead: initial_loss_scale.",
        )
        check.that(
            run.log.last_iteration >= ITERATIONS,
            f"it made at least {ITERATIONS} iterations",
            hint=f"It made {run.log.last_iteration}. Few steps prove little: take small(…) as it "
            "stands.",
        )
        started = float(flags.get("--initial-loss-scale", 2**32))
        check.that(
            run.log.skipped == 0,
            "no iteration was skipped",
            hint=f"{run.log.skipped} were, beginning with a scale of {started:,.0f}. Where did the "
            "scale of `half` come to rest? Begin below that.",
        )
        scale = float(steps["loss_scale"].iloc[-1])
        check.that(
            scale >= LEAST_SCALE,
            "the scale is large enough to save small gradients",
            hint=f"With a scale of {scale:g} nearly all that vanishes without scaling vanishes "
            "still. Look at the moving picture again: how far to the right may the bars go?",
        )


def ex08_started_at(answer: object) -> None:
    """Where the search began, if ten skipped steps had led to 2²³."""
    right = PRINTED_SCALE * 2 ** (SKIPPED - 1)
    with Checklist("08.2") as check:
        given = check.number(answer, "started_at")
        check.unless(
            given == PRINTED_SCALE,
            "it is the scale before the first iteration",
            hint="That is what the line prints after ten iterations, all of them skipped. What "
            "had each of them done to the scale?",
        )
        check.unless(
            given == PRINTED_SCALE * 2**SKIPPED,
            "it counts the halvings, not the skipped steps",
            hint="Ten steps were skipped, and not every skipped step halves: look at the first two "
            "lines of `half` again.",
        )
        check.unless(
            given in (32, SKIPPED - 1, SKIPPED),
            "it is the scale itself",
            hint="The scale, not its power of two or a number of steps.",
        )
        check.unless(
            given < PRINTED_SCALE,
            "it is larger than what was printed",
            hint="Overflows make the scale smaller as time goes on. So at the beginning it was…",
        )
        check.that(
            given == right,
            "the scale at the start explains the line",
            hint=f"You answered {given:,.0f}. Go backwards from {PRINTED_SCALE:,}: each halving "
            "undone doubles it. How many halvings do ten overflows with a patience of 2 make?",
        )
