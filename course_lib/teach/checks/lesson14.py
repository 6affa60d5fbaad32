"""Checks of lesson 14, estimating."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout, of_iteration, parameters, preset, training_days
from course_lib.teach.answers import EXACT, Amount, close
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, trains_as
from course_lib.words import N_, _

# Relative tolerance for a parameter count. Leaving out the position table exceeds it.
COUNTED = 0.005
# Relative tolerance for a rate. Typing 1048 for 1024 exceeds it.
CLOSE_ENOUGH = 0.015
# The published lab run: 4 V100, 8 samples per iteration.
LAB_SAMPLES, LAB_SECONDS, LAB_DEVICES, LAB_TOKENS = 8, 0.537, 4, 10e9
V100_PEAK_TFLOPS = 15.7
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
    right = {
        _("how many million parameters there are"): count / 1e6,
        _("the rate of a device"): rate,
        _("the number of days"): right_days,
    }
    counts = {_("the devices"): LAB_DEVICES, _("the samples"): LAB_SAMPLES}
    with Checklist("14.1") as check:
        check.amount(
            check.number(parameters_millions, "parameters_millions"),
            _parameters(right),
            _("it has so many parameters"),
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
                slips={
                    flops.hardware / seconds: twice,
                    WITH_RECOMPUTATION * per_parameter: twice,
                    WITHOUT * per_parameter: _(
                        "6 per parameter and token leaves out the products of queries "
                        "and keys, which matter in a small model. Use the formula for F."
                    ),
                    rate / 1e3: _(
                        "You divided by 537. These are milliseconds, and TFLOP/s are per "
                        "second: {lab_seconds} s.",
                        lab_seconds=LAB_SECONDS,
                    ),
                },
                known={
                    **right,
                    _("the peak on the data sheet of a V100"): V100_PEAK_TFLOPS,
                    _("the percent of the peak"): 100 * rate / V100_PEAK_TFLOPS,
                },
                counts=counts,
            ),
            _("each device achieved so many TFLOP/s"),
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
                slips={
                    iterations: _(
                        "These are iterations. Each of them takes {lab_seconds} s, and a "
                        "day has 86,400.",
                        lab_seconds=LAB_SECONDS,
                    ),
                    right_days * 1e3: _(
                        "You took the 537 ms for seconds. A day has 86,400 seconds, and "
                        "an iteration takes {lab_seconds} of them.",
                        lab_seconds=LAB_SECONDS,
                    ),
                    short * WITH_RECOMPUTATION / WITHOUT: _("The factor 8 counts a recomputation."),
                },
                known=right,
                counts={**counts, _("the tokens of a sample"): model.sequence},
            ),
            _("10 billion tokens take so many days"),
            hint=_(
                "One iteration is {tokens} tokens in {seconds} s, on all four devices. How many "
                "iterations are 10 billion tokens?",
                tokens=LAB_SAMPLES * model.sequence,
                seconds=LAB_SECONDS,
            ),
        )


def _parameters(known: dict[str, float]) -> Amount:
    model = preset("lab")
    right = parameters(model).total / 1e6
    layers = 12 * model.layers * model.hidden**2 / 1e6
    words = model.hidden * model.vocabulary / 1e6
    return Amount(
        right=right,
        unit=N_("millions"),
        share=COUNTED,
        slips={
            right - layers / 2: _(
                "You counted an MLP as h × h. Its two matrices are h × 4 h: 8 h² of 12 in a layer."
            ),
            layers: _(
                "{layers:.0f} million are in the layers. In a model as small as this the "
                "words and positions are a third of the whole: see the last term of the "
                "formula.",
                layers=layers,
            ),
            right + words: _(
                "You counted a second table for the logits. The same one is used backwards."
            ),
            right - model.hidden * model.sequence / 1e6: _(
                "You left out the table of positions, one row for each of the 1024."
            ),
        },
        known={name: value for name, value in known.items() if value != right},
        counts={_("the layers"): model.layers},
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
                slips={
                    10 * TOKENS: _("300 * 10e9 are 3000 billion: 10e9 is ten times 1e9."),
                    TOKENS / 1e9: _("These are billions of tokens. A billion is 1e9."),
                },
                known={
                    _("the number of parameters"): PARAMETERS,
                    _("the rate of a device"): _flops_per_s(),
                },
            ),
            _("the tokens are those of the estimate"),
            hint=_("The estimate is for 300 billion. A billion is 1e9."),
        )
        rate = check.number(flops_per_s, "right_flops_per_s")
        requirement = _("each device achieved so many FLOP/s")
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
        twice = _("2 forward and 4 backward for each parameter and token, and nothing twice.")
        ratio = _("That is the ratio of the two. The factor itself is asked for.")
        check.amount(
            check.number(factor, "factor_without_recomputation"),
            Amount(
                right=WITHOUT,
                share=EXACT,
                slips={
                    WITH_RECOMPUTATION: twice,
                    2: _("2 is the forward pass. Backward takes 4 more."),
                    4: _("4 is the backward pass. Forward takes 2 more."),
                    WITHOUT / WITH_RECOMPUTATION: ratio,
                    WITH_RECOMPUTATION / WITHOUT: ratio,
                },
            ),
            _("without recomputation the factor is another one"),
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
    tenfold = _("10e12 is ten times a tera. Here is the mistake that hid the one in the tokens.")
    return Amount(
        right=right,
        unit="FLOP/s",
        share=ROUNDED_ON_THE_WAY,
        slips={
            **dict.fromkeys((10 * right, 10 * mistyped), tenfold),
            mistyped: DIGITS,
            _by_8(1024): _(
                "8 for each parameter and token leaves out the products of queries and "
                "keys. Use the formula for F, and keep three digits."
            ),
            _flops_per_s(kind="model"): _(
                "These are model FLOPs. The estimate uses the factor 8, so it needs what "
                "the devices did: everything was recomputed."
            ),
        },
        known={
            _("the peak on the data sheet, which no training reaches"): A100_PEAK,
        },
        counts={_("the devices"): DEVICES, _("the samples"): SAMPLES},
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
        slips={
            by_formula(_flops_per_s(), WITHOUT): _(
                "You took the factor 6 with a rate of hardware FLOPs. Which factor "
                "counts what the devices did?"
            ),
            by_formula(_flops_per_s(MISTYPED)): _(
                "That still has the mistyped sequence in its rate."
            ),
            right * 175e9 / PARAMETERS: _(
                "That is for GPT-3. This model has 18.4 billion parameters."
            ),
            by_formula(A100_PEAK): _(
                "That is at the peak of the data sheet, which nobody reaches."
            ),
        },
        counts={
            _("the devices"): DEVICES,
            _("the samples"): SAMPLES,
            _("the tokens of a sample"): sequence,
        },
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
                slips={
                    before.peak_bytes / MIB: _(
                        "You predicted the peak of `target`. Of its {state:.1f} MiB of optimizer "
                        "state, a device now keeps a part.",
                        state=state,
                    ),
                    before.peak_bytes / MIB - gone: grown,
                    before.peak_bytes / MIB - state: _(
                        "You took away all of it. A device still keeps its own part."
                    ),
                    before.peak_bytes / MIB - state + gone: _(
                        "You took away a quarter. A quarter is what a device keeps."
                    ),
                },
                known={
                    _("the optimizer state of `target`"): state,
                    _("what is saved"): before.peak_bytes / MIB - after,
                },
                counts={_("the devices"): run.devices},
            ),
            _("the prediction is within 3 % of the measured peak"),
            hint=_("Measured were {after:.1f} MiB. {grown}", after=after, grown=grown),
        )
