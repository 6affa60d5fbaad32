"""Checks of lesson 14, estimating."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout, of_iteration, parameters, preset, training_days
from course_lib.teach.answers import EXACT, Amount, close, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, trains_as
from course_lib.words import N_, _

# Relative tolerance for a parameter count. Leaving out the position table exceeds it.
COUNTED = 0.005
# Relative tolerance for a rate. Typing 1048 for 1024 exceeds it.
CLOSE_ENOUGH = 0.015
# The published lab run: 4 V100, 8 samples per iteration.
LAB_SAMPLES, LAB_SECONDS, LAB_DEVICES, LAB_TOKENS = 8, 0.537, 4, 10e9
# Exercise 14.2 repairs an estimate for 18.4 billion parameters on 16 A100.
SAMPLES, SECONDS, DEVICES, TOKENS, PARAMETERS = 512, 32.09, 16, 300e9, 18.4e9
A100_PEAK = 312e12
# The sequence length with its typing error; 1024 is right.
MISTYPED = 1048
DIGITS = N_("Look at their_flops digit by digit: how long is a sequence of this model?")
# FLOPs per parameter and token.
WITH_RECOMPUTATION, WITHOUT = 8, 6
# Relative tolerance for a rate. The lesson prints 8.18 FLOPs per parameter and token.
ROUNDED_ON_THE_WAY = 0.005
# Relative error allowed between the predicted and the measured peak.
FORESEEN = 0.03
ZERO = ("--use-distributed-optimizer", "--use-torch-fsdp2")


def ex14_own(parameters_millions: object, tflops_per_device: object, days: object) -> None:
    """Check parameters, achieved rate and training days of the lab's model."""
    model = preset("lab")
    layout = Layout(data=LAB_DEVICES, micro_batch=2, recompute="full")
    flops = of_iteration(model, layout)
    count, seconds = parameters(model).total, LAB_SECONDS * LAB_DEVICES * 1e12
    rate = flops.model / seconds
    per_parameter = count * LAB_SAMPLES * model.sequence / seconds
    iterations = LAB_TOKENS / LAB_SAMPLES / model.sequence
    right_days = iterations * LAB_SECONDS / 86400
    with Checklist("14.1") as check:
        check.amount(
            check.number(parameters_millions, "parameters_millions"),
            _parameters(count),
            _("it has this many parameters"),
            hint=_("Put l = 12, h = 768, V = 50257 and s = 1024 into the formula for P."),
        )
        twice = _(
            "You counted a recomputation (96, or 8 per parameter and token). This run did none."
        )
        check.amount(
            check.number(tflops_per_device, "tflops_per_device"),
            Amount(
                right=rate,
                unit="TFLOP/s",
                share=CLOSE_ENOUGH,
                slips=(
                    (WITH_RECOMPUTATION * per_parameter, twice),
                    (flops.hardware / seconds, twice),
                    (
                        WITHOUT * per_parameter,
                        _(
                            "6 per parameter and token leaves out the products of queries and "
                            "keys, which matter in a small model. Use the formula for F."
                        ),
                    ),
                    (rate * LAB_DEVICES, _("That is the rate of all four devices together.")),
                ),
            ),
            _("each device achieved this many TFLOP/s"),
            hint=_(
                "FLOPs of one iteration of 8 samples without recomputation, divided by "
                "{lab_seconds} s, by {lab_devices} devices and by 1e12.",
                lab_seconds=LAB_SECONDS,
                lab_devices=LAB_DEVICES,
            ),
        )
        # The short formula leaves attention out. It is accepted, although it is an eighth off.
        short = right_days * WITHOUT * per_parameter / rate
        check.amount(
            check.number(days, "training_days"),
            Amount(
                right=right_days,
                unit=N_("days"),
                share=CLOSE_ENOUGH,
                also=(short,),
                slips=(
                    in_other_unit(right_days, "days", "hours"),
                    (iterations, _("That is the number of iterations. How long does one take?")),
                    (right_days * 1e3, _("You took the 537 ms for seconds.")),
                    (
                        short * WITH_RECOMPUTATION / WITHOUT,
                        _("The factor 8 counts a recomputation. This run did none."),
                    ),
                ),
            ),
            _("10 billion tokens take this many days"),
            hint=_(
                "One iteration is {tokens} tokens in {seconds} s, on all four devices. How many "
                "iterations are 10 billion tokens?",
                tokens=LAB_SAMPLES * model.sequence,
                seconds=LAB_SECONDS,
            ),
        )


def _parameters(count: int) -> Amount:
    model, right = preset("lab"), count / 1e6
    layers = 12 * model.layers * model.hidden**2 / 1e6
    return Amount(
        right=right,
        unit=N_("millions"),
        share=COUNTED,
        slips=(
            (count, _("Your number counts single parameters. The exercise asks for millions.")),
            (
                layers,
                _("That counts only the layers. The two tables are a third of all parameters."),
            ),
            (
                right - layers / 2,
                _("The two matrices of an MLP are h × 4 h: 8 h² of 12 h² in a layer."),
            ),
            (
                right + model.hidden * model.vocabulary / 1e6,
                _("You counted a second table for the logits. The model has one table."),
            ),
        ),
    )


def ex14_repaired(tokens: object, flops_per_s: object, days: object, factor: object) -> None:
    """Check a repaired estimate.

    The estimate has two tenfold mistakes that cancel, a mistyped sequence length, and an achieved
    rate called a peak.
    """
    with Checklist("14.2") as check:
        check.amount(
            check.number(tokens, "right_tokens"),
            Amount(
                right=TOKENS,
                share=EXACT,
                slips=(
                    (10 * TOKENS, _("300 * 10e9 is 3000 billion: 10e9 is ten times 1e9.")),
                    (TOKENS / 1e9, _("That is the number of billions. A billion is 1e9.")),
                ),
            ),
            _("the tokens are those of the estimate"),
            hint=_("The estimate is for 300 billion. A billion is 1e9."),
        )
        rate = check.number(flops_per_s, "right_flops_per_s")
        requirement = _("each device achieved this many FLOP/s")
        # Leaving attention out and using the longer sequence nearly cancel.
        check.unless(close(rate, _by_8(MISTYPED), 3e-4), requirement, hint=DIGITS)
        check.amount(
            rate,
            _achieved(),
            requirement,
            hint=_(
                "FLOPs of one iteration, fully recomputed, divided by {seconds} s and by "
                "{devices} devices.",
                seconds=SECONDS,
                devices=DEVICES,
            ),
        )
        check.amount(
            check.number(days, "right_days"),
            _days(),
            _("the days follow from them"),
            hint=_("Use days_of with your tokens and your rate."),
        )
        ratio = _("That is the ratio of the two factors. Give the factor itself.")
        twice = _("2 FLOPs in forward and 4 in backward for each parameter and token.")
        check.amount(
            check.number(factor, "factor_without_recomputation"),
            Amount(
                right=WITHOUT,
                share=EXACT,
                slips=(
                    (2, _("2 is the forward pass. Backward takes 4 more.")),
                    (4, _("4 is the backward pass. Forward takes 2 more.")),
                    (WITHOUT / WITH_RECOMPUTATION, ratio),
                    (WITH_RECOMPUTATION / WITHOUT, ratio),
                ),
            ),
            _("the factor without recomputation is right"),
            hint=twice,
        )


def _flops_per_s(sequence: int = 1024, kind: str = "hardware") -> float:
    """Return the FLOP/s of one device in the estimate."""
    model = preset("18b").but(sequence=sequence)
    flops = of_iteration(model, Layout(global_batch=SAMPLES, recompute="full"))
    return float(getattr(flops, kind)) / SECONDS / DEVICES


def _by_8(sequence: int) -> float:
    """Return the FLOP/s of one device by the short formula, 8 FLOPs per parameter and token."""
    return WITH_RECOMPUTATION * PARAMETERS * SAMPLES * sequence / SECONDS / DEVICES


def _achieved() -> Amount:
    right, mistyped = _flops_per_s(), _flops_per_s(MISTYPED)
    tenfold = _("10e12 is ten tera, just as 10e9 is ten billion.")
    return Amount(
        right=right,
        unit="FLOP/s",
        share=ROUNDED_ON_THE_WAY,
        slips=(
            (10 * right, tenfold),
            (10 * mistyped, tenfold),
            (mistyped, DIGITS),
            (
                _by_8(1024),
                _(
                    "8 for each parameter and token leaves out the products of queries and keys. "
                    "Use the formula for F, and keep three digits."
                ),
            ),
        ),
    )


def _days() -> Amount:
    """Accept the days by the formula or by counting iterations, which includes attention."""

    def by_formula(flops_per_s: float, factor: int = WITH_RECOMPUTATION) -> float:
        return training_days(PARAMETERS, TOKENS, DEVICES, flops_per_s / 1e12, factor)

    right, sequence = by_formula(_flops_per_s()), preset("18b").sequence
    counted = TOKENS / (SAMPLES * sequence) * SECONDS / 86400
    return Amount(
        right=right,
        unit=N_("days"),
        within=(right * (1 - CLOSE_ENOUGH), counted * (1 + ROUNDED_ON_THE_WAY)),
        slips=(
            (
                by_formula(_flops_per_s(), WITHOUT),
                _("The factor 6 does not fit a rate that counts the recomputation."),
            ),
            (by_formula(_flops_per_s(MISTYPED)), _("The rate still has the mistyped sequence.")),
            (right * 175e9 / PARAMETERS, _("That is for GPT-3. This model is smaller.")),
            (by_formula(A100_PEAK), _("That is at the peak of the data sheet.")),
        ),
    )


def ex14_sharded(predicted_mib: object, run: Any, target: Any) -> None:
    """Check the peak with a sharded optimizer, predicted before it was measured."""
    with Checklist("14.3") as check:
        given = check.number(predicted_mib, "predicted_mib")
        for one, name in ((run, _("the run `sharded`")), (target, _("the run `target`"))):
            check.started(one, "pretrain_gpt.py", name)
        layout = gpt.layout(run.recipe)
        check.that(
            layout.zero == 1,
            _("it shards the state of the optimizer"),
            hint=_(
                "Its zero is {zero}. Which value keeps parameters and gradients whole?",
                zero=layout.zero,
            ),
        )
        trains_as(check, run.recipe, target.recipe, "`target`", but=ZERO)
        how = _("Give the recipe memory=(7, 8), as the one of the exercise has it.")
        after = memory_of_rank_0(check, run, _("the run `sharded`"), how).peak_bytes / MIB
        before = memory_of_rank_0(check, target, _("the run `target`"), how)
        peak = before.peak_bytes / MIB
        state = before.peak_composition.get("optimizer", 0) / MIB
        gone = state * (1 - 1 / layout.data)
        grown = _(
            "{gone:.1f} MiB of optimizer state are gone, but another part has grown: compare "
            "target.memory[0].peak_composition with that of the new run.",
            gone=gone,
        )
        check.amount(
            given,
            Amount(
                right=after,
                unit="MiB",
                share=FORESEEN,
                slips=(
                    (
                        peak,
                        _(
                            "That is the peak of `target`. Of its {state:.1f} MiB of optimizer "
                            "state, a device now keeps a part.",
                            state=state,
                        ),
                    ),
                    (peak - gone, grown),
                    (
                        peak - state,
                        _("A device still keeps its own part of the optimizer state."),
                    ),
                ),
            ),
            _("the prediction is within 3 % of the measured peak"),
            hint=_("The measured peak is {after:.1f} MiB. {grown}", after=after, grown=grown),
        )
