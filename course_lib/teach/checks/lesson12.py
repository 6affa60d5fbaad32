"""Lesson 12, large batches."""

from __future__ import annotations

from math import sqrt
from typing import Any

from course_lib.teach.answers import close
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import global_batch, whole_flag
from course_lib.teach.slips import Quantity, Slip

SMALL_BATCH, LARGE_BATCH, SMALL_SQUARED, LARGE_SQUARED = 32, 256, 2.5, 0.75
"""Exercise 12.1: a rank's samples and all ranks', and the squared lengths of their gradients."""
CRITICAL, BEFORE, AFTER, STEPS_BEFORE = 2e6, 0.5e6, 4e6, 100_000
"""Exercise 12.2, in tokens."""
BATCH, DEVICES, TIMES_THE_BATCH = 256, 4, 16
LITTLE = 0.25
"""By which two losses may differ, in nats: less than what a wrong rate costs."""


def ex12_noise(answer: object) -> None:
    """The critical batch from the gradients of eight ranks, before and after their all-reduce."""
    with Checklist("12.1") as check:
        given = check.number(answer, "critical_batch")
        check.amount(
            given,
            _critical(),
            "from that batch on the noise is the smaller part of a step",
            hint="Both lengths are |G|² + tr(Σ) / samples, with 32 and with 256 samples. Solve for "
            "|G|² and for tr(Σ), and divide.",
        )


def _parts(small: float, large: float) -> tuple[float, float]:
    """tr(Σ) and |G|² that follow from these squared lengths."""
    noise = (small - large) / (1 / SMALL_BATCH - 1 / LARGE_BATCH)
    return noise, large - noise / LARGE_BATCH


def _critical() -> Quantity:
    apart = SMALL_SQUARED - LARGE_SQUARED
    noise, true = _parts(SMALL_SQUARED, LARGE_SQUARED)
    of_squares, squares = _parts(SMALL_SQUARED**2, LARGE_SQUARED**2)
    of_roots, roots = _parts(sqrt(SMALL_SQUARED), sqrt(LARGE_SQUARED))
    own: tuple[Slip, ...] = (
        (noise / LARGE_SQUARED,
         "You divided by the squared length of the large gradient. There is noise in that too: it "
         "is |G|² + tr(Σ) / 256."),
        (noise / SMALL_SQUARED,
         "You divided by the squared length of the small gradient, which is mostly noise."),
        (apart * SMALL_BATCH / LARGE_SQUARED,
         "That takes the mean over 256 samples for the true gradient. It has noise as well, an "
         "eighth of the other's."),
        (apart * SMALL_BATCH / true,
         "|G|² is right. But the two lengths differ by tr(Σ) (1/32 − 1/256), not by tr(Σ) / 32."),
        (SMALL_SQUARED * SMALL_BATCH / LARGE_SQUARED,
         "That takes all of the small gradient for noise. Part of it is the gradient."),
        (SMALL_SQUARED * SMALL_BATCH / true,
         "|G|² is right. But you took all of the small gradient for noise."),
        (noise, "That is tr(Σ), the noise of a single sample. How many times |G|² is it?"),
        (true, "That is |G|². How many times as large is the noise of a single sample?"),
        (of_squares / squares, "2.50 and 0.75 are squares already: do not square them again."),
        (of_roots / roots, "2.50 and 0.75 are squares, as the equations want them: take no root."),
        (noise / true / SMALL_BATCH,
         "That is counted in batches of a rank. How many samples are that?"),
        (noise / true / LARGE_BATCH, "That is counted in batches of 256. How many samples?"),
        (sqrt(noise / true),
         "Take no root: noise and gradient are both squared lengths, and their ratio is a number "
         "of samples."),
        (LARGE_BATCH, "That is the batch of all ranks, which was given."),
        (SMALL_BATCH, "That is the batch of one rank, which was given."),
        (LARGE_BATCH + SMALL_BATCH, "You added the batches. Solve the two equations."),
        (LARGE_BATCH - SMALL_BATCH, "You subtracted the batches. Solve the two equations."),
        (SMALL_SQUARED / LARGE_SQUARED, "That is how many times longer one square is."),
        (apart, "That is by how much the squared lengths differ."),
        (apart * SMALL_BATCH, "1/32 − 1/256 is not 1/32."),
        (apart * LARGE_BATCH, "1/32 − 1/256 is not 1/256: that is much smaller."),
        (LARGE_SQUARED * LARGE_BATCH, "0.75 is |G|² + tr(Σ) / 256, not tr(Σ) / 256."),
        (SMALL_SQUARED * SMALL_BATCH, "2.50 is |G|² + tr(Σ) / 32, not tr(Σ) / 32."),
        (noise / true * SMALL_SQUARED / LARGE_SQUARED, "The ratio of the squares has no place."),
    )  # fmt: skip
    counts = {"ranks": LARGE_BATCH / SMALL_BATCH}
    return Quantity(right=noise / true, unit="samples", own=own, counts=counts)


def ex12_cost(steps: object, tokens: object) -> None:
    """What eight times the batch saves in steps, and costs in tokens."""
    with Checklist("12.2") as check:
        given = check.number(steps, "steps_needed")
        costs = check.number(tokens, "times_the_tokens")
        check.amount(
            given,
            _steps(),
            "so many steps lead to the same loss",
            hint="First find S_min from the run that is known: 100,000 = S_min (1 + B_c / B).",
        )
        check.amount(
            costs,
            _tokens(),
            "and it costs so many times the tokens",
            hint="Tokens are steps × batch. Work them out for both batches.",
        )


def _least_steps() -> float:
    return STEPS_BEFORE / (1 + CRITICAL / BEFORE)


def _steps() -> Quantity:
    least, larger = _least_steps(), AFTER / BEFORE
    own: tuple[Slip, ...] = (
        (STEPS_BEFORE / larger,
         "Eight times the batch in an eighth of the steps: so it would be as long as both batches "
         "are far below the critical one."),
        (least, "That is S_min, with an endless batch. With 4 million it takes some more."),
        (STEPS_BEFORE * (1 + CRITICAL / AFTER),
         "100,000 is not S_min: it has its own 1 + B_c / B in it. Divide by that first."),
        (STEPS_BEFORE / sqrt(larger), "The root belongs to the learning rate, not to the steps."),
        (STEPS_BEFORE * (1 + AFTER / CRITICAL) / (1 + BEFORE / CRITICAL),
         "B_c / B stands upside down: with a larger batch there are fewer steps."),
        (STEPS_BEFORE * BEFORE / CRITICAL,
         "That is an eighth up to the critical batch and nothing beyond it. The law has no corner: "
         "at the critical batch there are already twice as many steps as S_min."),
        (STEPS_BEFORE, "These are the steps with the small batch. The large one needs fewer."),
        (STEPS_BEFORE - least * (1 + CRITICAL / AFTER), "These are the steps that are saved."),
        (STEPS_BEFORE * larger, "With a larger batch there are fewer steps, not more."),
        (least * (1 + CRITICAL / CRITICAL), "That is with the critical batch. It is 4 million."),
        (least * (1 + CRITICAL / AFTER) ** -1, "1 + B_c / B multiplies S_min: it takes more."),
        (STEPS_BEFORE / (1 + CRITICAL / AFTER), "First divide by the 1 + B_c / B of the run."),
        (STEPS_BEFORE / 2, "Half would be so if eight times the batch were twice of it."),
        (least * 1.2, "1 + B_c / B is 1.5 for 4 million: 2 / 4, not 0.2."),
    )  # fmt: skip
    return Quantity(right=least * (1 + CRITICAL / AFTER), unit="steps", own=own)


def _tokens() -> Quantity:
    larger = AFTER / BEFORE
    fewer = _steps().right / STEPS_BEFORE
    right = fewer * larger
    own: tuple[Slip, ...] = (
        (fewer, "That compares the steps. Each of them takes eight times the tokens."),
        (larger, "Each step takes so many times the tokens, but there are fewer steps."),
        (1, "As many tokens, only in larger portions: so it would be far below the critical "
            "batch."),
        (1 + AFTER / CRITICAL,
         "That compares with the fewest tokens that there can be, those of tiny batches. The "
         "batch of 0.5 million needs 1.25 times these."),
        (right - 1, "That is how many times *more*. The whole of it is one time more."),
        (1 / right, "You divided the small batch's tokens by those of the large one."),
        (_steps().right * AFTER, "These are the tokens. How many times those of the other run?"),
        (100 * right, "In percent it would be so; how many times is asked for."),
        (100 * (right - 1), "That is by how many percent it is more; how many times is asked for."),
        (1 - fewer, "That is the share of the steps that is saved."),
        (1 / fewer, "That is how many times fewer steps there are."),
        (larger - 1, "That is by how many times the batch is larger, and no tokens."),
        (1 + BEFORE / CRITICAL, "That compares the small batch with the fewest tokens."),
    )  # fmt: skip
    return Quantity(right=right, own=own)


def ex12_sixteen(run: Any, base: Any) -> None:
    """Sixteen times the batch of another run, on four devices, to the same number of samples."""
    with Checklist("12.3") as check:
        _trained(check, run, "the run")
        _trained(check, base, "the run with the small batch")
        ranks = run.log.world.data or 1
        check.that(
            ranks == DEVICES and run.recipe.nodes == 2,
            "four devices of two nodes shared each batch",
            hint=f"It asked for {run.recipe.nodes} × {run.recipe.gpus_per_node}, nodes × devices "
            f"on each, and its log says: {run.log.world}.",
        )
        _whole_batch(check, run, ranks)
        _rate(check, run, base)
        check.that(
            whole_flag(run, "--warmup-samples") > 0,
            "the rate was warmed up",
            hint="--warmup-samples is missing or 0, so the first step had the whole rate.",
        )
        _same_training(check, run, base)


def _trained(check: Checklist, run: Any, what: str) -> None:
    check.started(run, "scale_batch.py", what)
    check.unless(
        not check.left(run, "log", what).last_iteration,
        f"{what} trained a model",
        hint=f"The log of {run.name} has no iteration line: {run.log_file}",
    )


def _whole_batch(check: Checklist, run: Any, ranks: int) -> None:
    batch = global_batch(run) or 0
    said = {
        BATCH / ranks: "That would be the share of one device. --batch-size counts all ranks'.",
        BATCH * ranks: "--batch-size counts all ranks' samples; it is not multiplied by them.",
        BATCH / TIMES_THE_BATCH: "That is the small batch, shared by more devices.",
    }
    check.that(
        batch == BATCH,
        f"a batch had {BATCH} samples",
        hint=f"The iteration lines say {batch}. {said.get(batch, '16 × 16 are asked for.')}",
    )


def _rate(check: Checklist, run: Any, base: Any) -> None:
    rates = [one.log.iterations.get("learning_rate") for one in (run, base)]
    check.unless(
        any(rate is None or not rate.max() > 0 for rate in rates),
        "both logs say the learning rate",
        hint="Their lines have none. Are these the runs of the exercise?",
    )
    grew = rates[0].max() / rates[1].max()
    scaling = run.recipe.flags.get("--lr-scaling", "none")
    said = {
        1: "It stayed: the steps are as short as before, and there are only a sixteenth of them.",
        16: "It grew with the batch itself. That is for SGD; Adam's steps want the root."
        if scaling == "linear"
        else f"It grew twice: --lr is larger, and --lr-scaling {scaling} makes more of it.",
        2: "That is the root of 4, the devices. The root of how many times the batch?",
        256: "It grew twice: --lr is larger, and --lr-scaling linear makes more of it.",
        64: "It grew twice: --lr is larger, and --lr-scaling makes more of it.",
    }
    near = next((words for times, words in said.items() if close(grew, times, 0.02)), "")
    wanted = sqrt(TIMES_THE_BATCH)
    check.that(
        close(grew, wanted, 0.02),
        f"the learning rate grew by {wanted:g}, the root of {TIMES_THE_BATCH}",
        hint=f"It became {grew:.3g} times that of {base.name}. "
        + (near or "Leave --lr as it is, and choose its --lr-scaling."),
    )


def _same_training(check: Checklist, run: Any, base: Any) -> None:
    seen, wanted = (int(one.log.iterations["consumed_samples"].max()) for one in (run, base))
    more = (
        "As many steps would be sixteen times as many."
        if seen > wanted
        else "--samples does not change with the batch."
    )
    check.that(
        close(seen, wanted, 0.01),
        f"it saw as many samples as {base.name}",
        hint=f"It saw {seen:,} samples, the other {wanted:,}. {more}",
    )
    losses = [one.log.iterations.get("validation_loss") for one in (run, base)]
    check.unless(
        any(loss is None for loss in losses),
        "both logs say the validation loss",
        hint="Their lines have none. Are these the runs of the exercise?",
    )
    apart = losses[0].iloc[-1] - losses[1].iloc[-1]
    check.that(
        apart < LITTLE,
        "in a sixteenth of the steps it learned about as much",
        hint=f"Its validation loss ends {apart:.2f} higher. Is something else different: --lr, "
        "--width, --seed, the text?",
    )
