"""Lesson 14, estimating."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout, of_iteration, parameters, preset
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, same_shape
from course_lib.teach.checks.lesson14_repaired import (
    CLOSE_ENOUGH,
    WITH_RECOMPUTATION,
    WITHOUT,
    ex14_repaired,
)
from course_lib.teach.slips import Quantity

__all__ = ["ex14_own", "ex14_repaired", "ex14_sharded"]

COUNTED = 0.005
"""Share by which a number of parameters may be off; the table of positions is more."""
FORESEEN = 0.03
"""Share by which a predicted peak may miss the measured one."""

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
    )
    check.amount(
        given,
        Quantity(
            right=right,
            unit="days",
            share=CLOSE_ENOUGH,
            own=own,
            shared_by={"samples": LAB_SAMPLES, "tokens of a sample": model.sequence},
            # The short formula leaves attention out: it may be used, at the price of an eighth.
        ).or_as(short, given=given),
        "10 billion tokens take so many days",
        hint=f"One iteration is {per_iteration} tokens in {LAB_SECONDS} s. How many iterations are "
        "10 billion tokens?",
    )


def ex14_sharded(predicted_mib: object, run: Any, target: Any) -> None:
    """The peak with a sharded optimizer, predicted before it was measured."""
    with Checklist("14.3") as check:
        given = check.number(predicted_mib, "predicted_mib")
        for each, name in ((run, "the run `sharded`"), (target, "the run `target`")):
            check.started(each, "pretrain_gpt.py", name)
        _only_the_optimizer(check, run, target)
        how = "Give the recipe memory=(7, 8), as the one of the exercise has it."
        measured = memory_of_rank_0(check, run, "the run `sharded`", how)
        before = memory_of_rank_0(check, target, "the run `target`", how)
        state_mib = before.peak_composition.get("optimizer", 0) / MIB
        gone_mib = state_mib * (1 - 1 / gpt.layout(run.recipe).data)
        measured_mib, before_mib = measured.peak_bytes / MIB, before.peak_bytes / MIB
        check.amount(
            given,
            _peak(measured_mib, before_mib, state_mib, gone_mib),
            "the prediction is within 3 % of the measured peak",
            hint=f"Measured were {measured_mib:.1f} MiB. {gone_mib:.1f} MiB of optimizer state are "
            "gone, but another part has grown: compare target.memory[0].peak_composition with that "
            "of the new run.",
        )


def _only_the_optimizer(check: Checklist, run: Any, target: Any) -> None:
    layout, plain = gpt.layout(run.recipe), gpt.layout(target.recipe)
    check.that(
        layout.zero == 1,
        "it shards the state of the optimizer",
        hint=f"Its zero is {layout.zero}. Which value keeps parameters and gradients whole?",
    )
    same_shape(check, run, target.recipe.nodes, target.recipe.gpus_per_node, "as `target`")
    check.that(
        layout.but(zero=plain.zero) == plain
        and gpt.model(run.recipe).but(name="") == gpt.model(target.recipe).but(name=""),
        "nothing else differs from `target`",
        hint=f"Compare them: sharded.compare(target)\n{layout}\n{plain}",
    )


def _peak(measured_mib: float, before_mib: float, state_mib: float, gone_mib: float) -> Quantity:
    own = (
        (
            before_mib,
            f"You predicted the peak of `target`. Of its {state_mib:.1f} MiB of optimizer state, a "
            "device now keeps a part.",
        ),
        (
            before_mib - gone_mib,
            f"{gone_mib:.1f} MiB of optimizer state are gone, but another part has grown: compare "
            "target.memory[0].peak_composition with that of the new run.",
        ),
        (before_mib - state_mib / 2, "You took away half of the optimizer state. Who shares it?"),
        (before_mib - state_mib, "You took away all of it. A device still keeps its own part."),
        (state_mib, "That is the optimizer state of `target`. The whole peak is asked for."),
        (
            state_mib - gone_mib,
            "That is the device's part of the optimizer state. The whole peak is asked for.",
        ),
        (before_mib / 4, "Only the optimizer state is shared, not all that a device holds."),
        (
            before_mib - 1.5 * gone_mib,
            "You cut the gradients, too: that would be zero=2. Here they stay whole.",
        ),
        (
            before_mib - 2 * gone_mib,
            "You cut parameters and gradients, too: that would be zero=3. Here they stay whole.",
        ),
        (gone_mib, "That is what is saved. The peak that is left is asked for."),
    )
    return Quantity(right=measured_mib, unit="MiB", share=FORESEEN, own=own)
