"""Lesson 14, estimating."""

from __future__ import annotations

from course_lib.plan import Layout, of_iteration, parameters, preset
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.lesson14_repaired import (
    CLOSE_ENOUGH,
    WITH_RECOMPUTATION,
    WITHOUT,
    ex14_repaired,
)
from course_lib.teach.checks.lesson14_sharded import ex14_sharded
from course_lib.teach.slips import Quantity

__all__ = ["ex14_own", "ex14_repaired", "ex14_sharded"]

COUNTED = 0.005
"""Share by which a number of parameters may be off; the table of positions is more."""

# The lab of the original: 4 V100, 8 samples per iteration (published with it).
LAB_SAMPLES, LAB_SECONDS, LAB_DEVICES, LAB_TOKENS = 8, 0.537, 4, 10e9
V100_PEAK_TFLOPS = 15.7


def ex14_own(parameters_millions: object, tflops_per_device: object, days: object) -> None:
    """Parameters, achieved rate and days of the model of the lab."""
    with Checklist("14.1") as check:
        given = check.number(parameters_millions, "parameters_millions")
        _parameters(check, given)
        _rate(check, check.number(tflops_per_device, "tflops_per_device"))
        _days(check, check.number(days, "training_days"))


def _elsewhere(place: str) -> dict[str, float]:
    """What is right in the other gaps, for whoever has exchanged two."""
    model = preset("lab")
    flops = of_iteration(model, Layout(data=LAB_DEVICES, micro_batch=2)).model
    right = {
        "millions": ("how many million parameters there are", parameters(model).total / 1e6),
        "tflops": ("the rate of a device", flops / LAB_SECONDS / LAB_DEVICES / 1e12),
        "days": (
            "the number of days",
            LAB_TOKENS / LAB_SAMPLES / model.sequence * LAB_SECONDS / 86400,
        ),
    }
    return dict(said for name, said in right.items() if name != place)


def _parameters(check: Checklist, given: float) -> None:
    model = preset("lab")
    right = parameters(model).total / 1e6
    layers = 12 * model.layers * model.hidden**2 / 1e6
    words = model.hidden * model.vocabulary / 1e6
    positions = model.hidden * model.sequence / 1e6
    own = (
        (
            right - layers / 2,
            "You counted an MLP as h × h. Its two matrices are h × 4 h: 8 h² of 12 in a layer.",
        ),
        (right + layers, "You counted 24 h² for a layer. It has 12: 4 in attention, 8 in the MLP."),
        (
            layers,
            f"{layers:.0f} million are in the layers. In a model as small as this the words and "
            "positions are a third of the whole: see the last term of the formula.",
        ),
        (
            right + words,
            "You counted a second table for the logits. The same one is used backwards.",
        ),
        (right - positions, "You left out the table of positions, one row for each of the 1024."),
    )
    check.amount(
        given,
        Quantity(
            right=right,
            unit="millions",
            share=COUNTED,
            own=own,
            known=_elsewhere("millions"),
            parts={
                "the table of words": words,
                "the table of positions": positions,
                "both tables": words + positions,
                "one layer": layers / model.layers,
                "the layers": layers,
                "what is in the MLPs": layers * 2 / 3,
                "what is in attention": layers / 3,
            },
        ),
        "it has so many parameters",
        hint="Put l = 12, h = 768, V = 50257 and s = 1024 into the formula for P.",
    )


def _rate(check: Checklist, given: float) -> None:
    model = preset("lab")
    layout = Layout(data=LAB_DEVICES, micro_batch=2, recompute="full")
    flops = of_iteration(model, layout)
    each = LAB_SECONDS * LAB_DEVICES * 1e12
    right, recomputed = flops.model / each, flops.hardware / each
    per_parameter = parameters(model).total * LAB_SAMPLES * model.sequence / each
    causal = of_iteration(model.but(sequence=model.sequence // 2), layout).model * 2 / each
    twice = "You counted a recomputation (96, or 8 per parameter and token). This run did none."
    own = (
        (right * LAB_DEVICES, f"{given:.1f} TFLOP/s is what the four devices achieved together."),
        (recomputed, twice),
        (WITH_RECOMPUTATION * per_parameter, twice),
        (
            WITHOUT * per_parameter,
            "6 per parameter and token leaves out the products of queries and keys, which matter "
            "in a small model. Use the formula for F.",
        ),
        (
            causal,
            "You counted causal attention, half of the scores. The lesson's formula for F counts "
            "all of them: use it, so that the numbers can be compared.",
        ),
        (
            right / 1e3,
            "You divided by 537. These are milliseconds, and TFLOP/s are per second: "
            f"{LAB_SECONDS} s.",
        ),
        (
            100 * right / V100_PEAK_TFLOPS,
            "That is in percent of the peak. How many TFLOP/s are it?",
        ),
        (right / V100_PEAK_TFLOPS, "That is the share of the peak. How many TFLOP/s are it?"),
        (125, "125 TFLOP/s are a V100's tensor cores at their peak, not what it achieved."),
        (flops.model / 1e12, "These are the FLOPs of one iteration. How long does it take?"),
        (
            flops.model / 1e12 / LAB_DEVICES,
            "These are the FLOPs of one iteration on one device. How long does it take?",
        ),
        (V100_PEAK_TFLOPS, "That is the peak on the data sheet of a V100, not what it achieved."),
    )
    check.amount(
        given,
        Quantity(
            right=right,
            unit="TFLOP/s",
            share=CLOSE_ENOUGH,
            own=own,
            known=_elsewhere("tflops"),
            counts={"samples": LAB_SAMPLES},
            shared_by={"devices": LAB_DEVICES},
            is_work=True,
        ),
        "each device achieved so many TFLOP/s",
        hint="FLOPs of one iteration of 8 samples without recomputation, divided by "
        f"{LAB_SECONDS} s, by {LAB_DEVICES} devices and by 1e12.",
    )


def _days(check: Checklist, given: float) -> None:
    model = preset("lab")
    per_iteration = LAB_SAMPLES * model.sequence
    right = LAB_TOKENS / per_iteration * LAB_SECONDS / 86400
    twice = f"You are off by {LAB_DEVICES}. The 537 ms and the 8 samples are those of all four."
    flops = of_iteration(model, Layout(data=LAB_DEVICES, micro_batch=2)).model
    rate = flops / LAB_SECONDS / LAB_DEVICES / 1e12
    short = right * WITHOUT * parameters(model).total * per_iteration / flops
    own = (
        (right * LAB_DEVICES, twice),
        (right / LAB_DEVICES, twice),
        (
            LAB_TOKENS / per_iteration,
            f"These are iterations. Each of them takes {LAB_SECONDS} s, and a day has 86,400.",
        ),
        (
            right * 1e3,
            "You took the 537 ms for seconds. A day has 86,400 seconds, and an iteration takes "
            f"{LAB_SECONDS} of them.",
        ),
        (short * WITH_RECOMPUTATION / WITHOUT, "The factor 8 counts a recomputation."),
        *(
            (days * rate / V100_PEAK_TFLOPS, "That is at the peak of the data sheet.")
            for days in (short, right)
        ),
    )
    check.amount(
        given,
        Quantity(
            right=right,
            unit="days",
            share=CLOSE_ENOUGH,
            own=own,
            known=_elsewhere("days"),
            shared_by={"samples": LAB_SAMPLES, "tokens of a sample": model.sequence},
            # The short formula leaves attention out: it may be used, at the price of an eighth.
        ).or_as(short, given=given),
        "10 billion tokens take so many days",
        hint=f"One iteration is {per_iteration} tokens in {LAB_SECONDS} s. How many iterations are "
        "10 billion tokens?",
    )
