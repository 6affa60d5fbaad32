"""Lesson 14, estimating."""

from __future__ import annotations

from functools import partial
from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout, of_iteration, parameters, preset, training_days
from course_lib.teach.checklist import Checklist, close

CLOSE_ENOUGH = 0.015
"""Share by which a number worked out by hand may be off; typing 1048 for 1024 is further off."""
_close = partial(close, share=CLOSE_ENOUGH)
FORESEEN = 0.03
"""Share by which a predicted peak may miss the measured one."""

# The lab of the original: 4 V100, 8 samples per iteration (published with it).
LAB_SAMPLES, LAB_SECONDS, LAB_DEVICES, LAB_TOKENS = 8, 0.537, 4, 10e9
# The worked case: 18.4 B parameters on 16 A100, 512 samples per iteration.
BIG_SAMPLES, BIG_SECONDS, BIG_DEVICES, BIG_TOKENS, BIG_PARAMETERS = 512, 32.09, 16, 300e9, 18.4e9
A100_PEAK = 312e12


def ex14_own(parameters_millions: object, tflops_per_device: object, days: object) -> None:
    """Parameters, achieved rate and days of the model of the lab."""
    with Checklist("14.1") as check:
        given = check.number(parameters_millions, "parameters_millions")
        _parameters(check, given)
        _rate(check, check.number(tflops_per_device, "tflops_per_device"))
        _days(check, check.number(days, "training_days"))


def _parameters(check: Checklist, given: float) -> None:
    model = preset("lab")
    right = parameters(model).total / 1e6
    layers = 12 * model.layers * model.hidden**2 / 1e6
    check.that(
        not _close(given * 1e6, right) and not _close(given, right * 1e6),
        "the parameters are in millions",
        hint="The digits are right, the unit is not: divide by 1e6.",
    )
    check.that(
        not _close(given, layers),
        "the parameters count the tables too",
        hint=f"{given:.0f} million are in the layers. In a model as small as this the words and "
        "positions are a third of the whole: see the last term of the formula.",
    )
    untied = right + model.hidden * model.vocabulary / 1e6
    check.that(
        not _close(given, untied),
        "the table of words is counted once",
        hint="You counted a second table for the logits. The same one is used backwards.",
    )
    check.that(
        _close(given, right),
        "it has so many parameters",
        hint=f"You answered {given:g} million. Put l = 12, h = 768, V = 50257 and s = 1024 into "
        "the formula for P.",
    )


def _rate(check: Checklist, given: float) -> None:
    model = preset("lab")
    layout = Layout(data=LAB_DEVICES, micro_batch=2, recompute="full")
    flops = of_iteration(model, layout)
    each = LAB_SECONDS * LAB_DEVICES * 1e12
    right, recomputed = flops.model / each, flops.hardware / each
    by_parameters = 6 * parameters(model).total * LAB_SAMPLES * model.sequence / each
    check.that(
        not _close(given, right * LAB_DEVICES),
        "the rate is that of one device",
        hint=f"{given:.1f} TFLOP/s is what the four devices achieved together.",
    )
    check.that(
        not _close(given, recomputed),
        "the rate counts what this run did",
        hint="You counted a recomputation (96, or 8 per parameter and token). This run did none.",
    )
    check.that(
        not _close(given, by_parameters),
        "the rate counts attention",
        hint="6 per parameter and token leaves out the products of queries and keys, which matter "
        "in a small model. Use the formula for F.",
    )
    check.that(
        _close(given, right),
        "each device achieved so many TFLOP/s",
        hint=f"You answered {given:g}. FLOPs of one iteration of 8 samples without recomputation, "
        f"divided by {LAB_SECONDS} s, by {LAB_DEVICES} devices and by 1e12.",
    )


def _days(check: Checklist, given: float) -> None:
    model = preset("lab")
    per_iteration = LAB_SAMPLES * model.sequence
    right = LAB_TOKENS / per_iteration * LAB_SECONDS / 86400
    check.that(
        not _close(given, right * LAB_DEVICES) and not _close(given, right / LAB_DEVICES),
        "the days count the devices once",
        hint=f"You are off by {LAB_DEVICES}. The 537 ms and the 8 samples are those of all four.",
    )
    check.that(
        not _close(given, right * 24) and not _close(given, right * 86400),
        "they are days",
        hint="The digits are right, the unit is not: a day has 86 400 s.",
    )
    # The short formula leaves attention out: it may be used here, at the price of an eighth.
    check.that(
        0.85 * right <= given <= 1.02 * right,
        "10 billion tokens take so many days",
        hint=f"You answered {given:g}. One iteration is {per_iteration} tokens in {LAB_SECONDS} s. "
        "How many iterations are 10 billion tokens?",
    )


def ex14_repaired(tokens: object, flops_per_s: object, days: object, factor: object) -> None:
    """Two tenfold mistakes that cancel, a mistyped sequence, an achieved rate called a peak."""
    with Checklist("14.2") as check:
        given = check.number(tokens, "right_tokens")
        check.that(
            given != 300 * 10e9,
            "the tokens are 300 billion",
            hint="300 * 10e9 are 3000 billion: 10e9 is ten times 1e9.",
        )
        check.that(
            given == BIG_TOKENS,
            "300 billion is written as a number of tokens",
            hint=f"You gave {given:g}. A billion is 1e9.",
        )
        rate = check.number(flops_per_s, "right_flops_per_s")
        _repaired_rate(check, rate)
        _repaired_days(check, check.number(days, "right_days"), rate)
        check.that(
            check.number(factor, "factor_without_recomputation") == 6,
            "without recomputation the factor is another one",
            hint="2 forward and 4 backward for each parameter and token, and nothing twice.",
        )


def _repaired_rate(check: Checklist, given: float) -> None:
    def rate(sequence: int, kind: str) -> float:
        model = preset("18b").but(sequence=sequence)
        flops = of_iteration(model, Layout(global_batch=BIG_SAMPLES, recompute="full"))
        return float(getattr(flops, kind)) / BIG_SECONDS / BIG_DEVICES

    right = rate(1024, "hardware")
    check.that(
        not _close(given, 10 * right) and not _close(given, 10 * rate(1048, "hardware")),
        "a tera is 10¹²",
        hint="10e12 is ten times that. Here is the mistake that hid the one in the tokens.",
    )
    check.that(
        not _close(given * 1e12, right),
        "the rate is in FLOP/s",
        hint="You gave TFLOP/s; multiply by 1e12.",
    )
    check.that(
        not _close(given, A100_PEAK),
        "the rate was achieved, not promised",
        hint="312 TFLOP/s is the peak on the data sheet, which no training reaches.",
    )
    check.that(
        not _close(given, right * BIG_DEVICES),
        "the rate is that of one device",
        hint="This is what the 16 devices achieved together.",
    )
    check.that(
        not _close(given, rate(1024, "model")),
        "it counts hardware FLOPs",
        hint="These are model FLOPs. The estimate uses the factor 8, so it needs what the devices "
        "did: everything was recomputed.",
    )
    check.that(
        not _close(given, rate(1048, "hardware")),
        "the sequence is as long as it was",
        hint="Look at their_flops digit by digit: how long is a sequence of this model?",
    )
    check.that(
        _close(given, right),
        "each device achieved so many FLOP/s",
        hint=f"You gave {given:g}. FLOPs of one iteration, fully recomputed, divided by "
        f"{BIG_SECONDS} s and by {BIG_DEVICES} devices.",
    )


def _repaired_days(check: Checklist, given: float, rate: float) -> None:
    right = training_days(BIG_PARAMETERS, BIG_TOKENS, BIG_DEVICES, rate / 1e12, 8)
    check.that(
        not _close(given, right * 6 / 8),
        "factor and rate are of the same kind",
        hint="You took the factor 6 with a rate of hardware FLOPs. Which factor counts what the "
        "devices did?",
    )
    check.that(
        _close(given, right),
        "the days follow from them",
        hint=f"You gave {given:g} days. Use days_of with your tokens and your rate.",
    )


def ex14_sharded(predicted_mib: object, run: Any, target: Any) -> None:
    """The peak with a sharded optimizer, predicted before it was measured."""
    with Checklist("14.3") as check:
        check.succeeded(run, "the run `sharded`")
        check.succeeded(target, "the run `target`")
        layout, plain = gpt.layout(run.recipe), gpt.layout(target.recipe)
        check.that(
            layout.zero == 1,
            "it shards the state of the optimizer",
            hint=f"Its zero is {layout.zero}. Which value keeps parameters and gradients whole?",
        )
        check.that(
            layout.but(zero=plain.zero) == plain
            and gpt.model(run.recipe).but(name="") == gpt.model(target.recipe).but(name=""),
            "nothing else differs from `target`",
            hint=f"Compare them: sharded.compare(target)\n{layout}\n{plain}",
        )
        given = check.number(predicted_mib, "predicted_mib")
        measured_mib = run.memory[0].peak_bytes / 2**20
        before_mib = target.memory[0].peak_bytes / 2**20
        state_mib = target.memory[0].peak_composition["optimizer"] / 2**20
        check.that(
            abs(given * 1e6 / 2**20 - measured_mib) > 0.005 * measured_mib,
            "the prediction is in MiB",
            hint="You divided by 10⁶: these are MB. One MiB is 2²⁰ = 1 048 576 bytes.",
        )
        check.that(
            not _close(given, before_mib),
            "the prediction knows of the sharding",
            hint=f"You predicted the peak of `target`. Of its {state_mib:.1f} MiB of optimizer "
            "state, a device now keeps a part.",
        )
        gone_mib = state_mib * (1 - 1 / layout.data)
        check.that(
            abs(given - measured_mib) <= FORESEEN * measured_mib,
            "the prediction is within 3 % of the measured peak",
            hint=f"Predicted {given:.1f} MiB, measured {measured_mib:.1f} MiB. {gone_mib:.1f} MiB "
            "of optimizer state are gone, but another part has grown: compare "
            "target.memory[0].peak_composition with that of the new run.",
        )
