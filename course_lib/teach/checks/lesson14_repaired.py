"""Exercise 14.2: an estimate to repair, of 18.4 billion parameters on 16 A100."""

from __future__ import annotations

from course_lib.plan import Layout, of_iteration, preset, training_days
from course_lib.teach.answers import close
from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import EXACT, Quantity

SAMPLES, SECONDS, DEVICES, TOKENS, PARAMETERS = 512, 32.09, 16, 300e9, 18.4e9
A100_PEAK = 312e12
WITH_RECOMPUTATION, WITHOUT = 8, 6
"""FLOPs for each parameter and token."""
CLOSE_ENOUGH = 0.015
"""Share by which a rate may be off; typing 1048 for 1024 is further off."""
ROUNDED_ON_THE_WAY = 0.005
"""Share by which a rate may be off: the lesson prints 8.18 FLOPs per parameter and token."""
SAME = 3e-4
ROUNDED_DAYS = 0.005
MISTYPED = "Look at their_flops digit by digit: how long is a sequence of this model?"


def ex14_repaired(tokens: object, flops_per_s: object, days: object, factor: object) -> None:
    """Two tenfold mistakes that cancel, a mistyped sequence, an achieved rate called a peak."""
    with Checklist("14.2") as check:
        own = (
            (10 * TOKENS, "300 * 10e9 are 3000 billion: 10e9 is ten times 1e9."),
            (TOKENS / 1e9, "These are billions of tokens. A billion is 1e9."),
            (TOKENS / 1e12, "These are trillions of tokens."),
            (300 * 2**30, "A billion is 1e9 here, not 2³⁰."),
            (20 * PARAMETERS, "20 tokens for a parameter is a rule. The estimate is for others."),
            (TOKENS / 1024, "These are sequences. How many tokens?"),
            (TOKENS / 1024 / SAMPLES, "These are iterations. How many tokens?"),
        )
        check.amount(
            check.number(tokens, "right_tokens"),
            Quantity(
                right=TOKENS,
                share=EXACT,
                own=own,
                known={"the number of parameters": PARAMETERS, "the rate of a device": _rate()},
            ),
            "the tokens are those of the estimate",
            hint="The estimate is for 300 billion. A billion is 1e9.",
        )
        _achieved(check, check.number(flops_per_s, "right_flops_per_s"))
        _days(check, check.number(days, "right_days"))
        twice = "2 forward and 4 backward for each parameter and token, and nothing twice."
        check.amount(
            check.number(factor, "factor_without_recomputation"),
            Quantity(
                right=WITHOUT,
                share=EXACT,
                own=(
                    (WITH_RECOMPUTATION, twice),
                    (2, "2 is the forward pass. Backward takes 4 more."),
                    (4, "4 is the backward pass. Forward takes 2 more."),
                    (3, "3 counts passes. Each takes 2 FLOPs: a product and a sum."),
                    *(
                        (ratio, "That is the ratio of the two. The factor itself is asked for.")
                        for ratio in (WITHOUT / WITH_RECOMPUTATION, WITH_RECOMPUTATION / WITHOUT)
                    ),
                    (6.16, "That counts attention too. The short formula leaves it out."),
                    (
                        WITHOUT * PARAMETERS,
                        "You multiplied already. The factor itself is asked for.",
                    ),
                ),
            ),
            "without recomputation the factor is another one",
            hint=twice,
        )


def _rate(sequence: int = 1024, kind: str = "hardware") -> float:
    """FLOP/s of one device of the worked case."""
    model = preset("18b").but(sequence=sequence)
    flops = of_iteration(model, Layout(global_batch=SAMPLES, recompute="full"))
    return float(getattr(flops, kind)) / SECONDS / DEVICES


def _shortened(sequence: int) -> float:
    tokens = SAMPLES * sequence
    return WITH_RECOMPUTATION * PARAMETERS * tokens / SECONDS / DEVICES


def _layers_alone(sequence: int) -> float:
    model = preset("18b").but(sequence=sequence)
    words = 6 * SAMPLES * sequence * model.hidden * model.vocabulary
    return _rate(sequence) - words / SECONDS / DEVICES


def _achieved(check: Checklist, given: float) -> None:
    right, mistyped, counts = _rate(), _rate(1048), {"devices": DEVICES}
    tenfold = "10e12 is ten times a tera. Here is the mistake that hid the one in the tokens."
    own = (
        (10 * right, tenfold),
        (10 * mistyped, tenfold),
        (right / 1e12, "You gave TFLOP/s; multiply by 1e12."),
        (A100_PEAK, "312 TFLOP/s is the peak on the data sheet, which no training reaches."),
        (right * DEVICES, "This is what the 16 devices achieved together."),
        (
            _rate(kind="model"),
            "These are model FLOPs. The estimate uses the factor 8, so it needs what the devices "
            "did: everything was recomputed.",
        ),
        (right / A100_PEAK, "That is the share of the peak. How many FLOP/s are it?"),
        (100 * right / A100_PEAK, "That is in percent of the peak. How many FLOP/s are it?"),
        (312, "312 TFLOP/s is the peak on the data sheet, which no training reaches."),
        (140e12, "140 TFLOP/s is the rate of GPT-3 in the lesson. Here are other devices."),
        (TOKENS, "These are the tokens. The rate of a device is asked for."),
        (19.5e12, "19.5 TFLOP/s is the float32 peak of the data sheet, not what was achieved."),
        (right * SECONDS, "These are FLOPs of an iteration. It takes 32.09 s."),
        (right / SAMPLES, "That is one sample. An iteration has 512."),
        *((rate, MISTYPED) for rate in (mistyped, _shortened(1048), _layers_alone(1048))),
        (
            _shortened(1024),
            "8 for each parameter and token leaves out the products of queries and keys. Use the "
            "formula for F, and keep three digits.",
        ),
        (_layers_alone(1024), "You left out the logits, the last term of the formula for F."),
    )
    wanted = Quantity(
        right=right,
        unit="FLOP/s",
        share=ROUNDED_ON_THE_WAY,
        own=own,
        shared_by=counts,
        is_work=True,
    )
    meant = wanted.in_its_unit(given)
    check.unless(
        # The shortcut that leaves attention out and the longer sequence make up for each other.
        meant is not None and close(meant, _shortened(1048), SAME),
        "each device achieved so many FLOP/s",
        hint=MISTYPED,
    )
    check.amount(
        given,
        wanted,
        "each device achieved so many FLOP/s",
        hint=f"FLOPs of one iteration, fully recomputed, divided by {SECONDS} s and by "
        f"{DEVICES} devices.",
    )


def _days(check: Checklist, given: float) -> None:
    """By the formula, or by counting iterations, which leaves nothing out."""

    def by_formula(flops_per_s: float, factor: int = WITH_RECOMPUTATION) -> float:
        tera = flops_per_s / 1e12
        return training_days(PARAMETERS, TOKENS, DEVICES, tera, factor)

    right, sequence = by_formula(_rate()), preset("18b").sequence
    counted = TOKENS / (SAMPLES * sequence) * SECONDS / 86400
    own = (
        (
            by_formula(_rate(), WITHOUT),
            "You took the factor 6 with a rate of hardware FLOPs. Which factor counts what the "
            "devices did?",
        ),
        (
            right * WITH_RECOMPUTATION / WITHOUT,
            "The 8 has the recomputation in it already: 6 is without it.",
        ),
        (by_formula(_rate(1048)), "That still has the mistyped sequence in its rate."),
        *(
            (days, "That is for GPT-3. This model has 18.4 billion parameters.")
            for days in (right * 175e9 / PARAMETERS, training_days(175e9, TOKENS, 1024, 140, 8))
        ),
        (by_formula(A100_PEAK), "That is at the peak of the data sheet, which nobody reaches."),
    )
    counts = {"devices": DEVICES, "samples": SAMPLES, "tokens of a sample": sequence}
    within = (right * (1 - CLOSE_ENOUGH), counted * (1 + ROUNDED_DAYS))
    check.amount(
        given,
        Quantity(right=right, unit="days", within=within, own=own, shared_by=counts),
        "the days follow from them"
        if given < (right + counted) / 2 or given > within[1]
        else "the days follow from them, some more than by the formula: it leaves attention out",
        hint="Use days_of with your tokens and your rate.",
    )
