"""Exercise 14.3: the peak of a run that shares the optimizer's state, predicted."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Layout
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, same_shape
from course_lib.teach.slips import Quantity

FORESEEN = 0.03
"""Share by which a predicted peak may miss the measured one."""


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
            _peak(measured_mib, before_mib, state_mib, gone_mib, run.devices),
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
        hint=f"These differ: {_what_differs(layout, plain) or 'the model'}. Compare them: "
        "sharded.compare(target)",
    )


def _what_differs(layout: Layout, plain: Layout) -> str:
    names = (entry.name for entry in fields(layout) if entry.name != "zero")
    return ", ".join(name for name in names if getattr(layout, name) != getattr(plain, name))


def _peak(
    measured_mib: float, before_mib: float, state_mib: float, gone_mib: float, devices: int
) -> Quantity:
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
        (before_mib - state_mib / 4, "You took away a quarter. A quarter is what a device keeps."),
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
        (
            before_mib - measured_mib,
            "That is what is saved. The peak that is left is asked for.",
        ),
        (2 * before_mib - measured_mib, "You added what is saved. The peak falls."),
        (
            100 * measured_mib / before_mib,
            "That is in percent of the peak of `target`. How many MiB are it?",
        ),
        (gone_mib, "That is what is saved. The peak that is left is asked for."),
    )
    all_of_them = (measured_mib * devices, f"That is what all {devices} devices hold together.")
    return Quantity(right=measured_mib, unit="MiB", share=FORESEEN, own=(*own, all_of_them))
