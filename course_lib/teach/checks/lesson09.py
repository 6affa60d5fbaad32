"""Checks of lesson 09, activation checkpointing."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Model
from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, flags_are, memory_of_rank_0, trains_as, whole_flag
from course_lib.words import N_, _

FLOAT32_BYTES, WIDTHS_OF_A_LAYER = 4, 16
# On a CPU, torch keeps this random state beside each input, to repeat its random numbers.
RANDOM_STATE_BYTES = 5056
GRANULARITY, METHOD = "--recompute-granularity", "--recompute-method"
LAYERS = "--recompute-num-layers"
ASK_FOR_MEMORY = N_("Give the recipe memory=(6, 7), as `common` does.")


def ex09_fits(run: Any, keep: Any, room: object) -> None:
    """Check that as few layers as possible are recomputed to bring the peak under a limit."""
    with Checklist("09.1") as check:
        room_mib = check.number(room, "room_mib")
        for one, name in ((run, _("the run `fits_run`")), (keep, _("the run `keep`"))):
            check.started(one, "pretrain_gpt.py", name)
        trains_as(check, run.recipe, keep.recipe, "`keep`", but=(GRANULARITY, METHOD, LAYERS))
        flags_are(
            check,
            run,
            {GRANULARITY: "full", METHOD: "block"},
            {
                GRANULARITY: _("Which run forgets everything that a layer keeps except its input?"),
                METHOD: _(
                    "With this method the number is the size of a group, and every layer is "
                    "recomputed. The other method counts layers."
                ),
            },
        )
        peak_mib, all_mib = (
            memory_of_rank_0(
                check, one, _("the run `{name}`", name=one.name), ASK_FOR_MEMORY
            ).peak_bytes
            / MIB
            for one in (run, keep)
        )
        each_mib = (all_mib - peak_mib) / whole_flag(run, LAYERS, 1)
        check.that(
            peak_mib <= room_mib,
            _("its peak is within {room_mib:.1f} MiB", room_mib=room_mib),
            hint=_(
                "It peaks at {peak_mib:.1f} MiB, {peak_mib2:.1f} MiB too much. Each "
                "layer that is recomputed gives back about {each_mib:.1f} MiB.",
                peak_mib=peak_mib,
                peak_mib2=peak_mib - room_mib,
                each_mib=each_mib,
            ),
        )
        check.that(
            peak_mib + each_mib > room_mib,
            _("one layer less would not have been enough"),
            hint=_(
                "It peaks at {peak_mib:.1f} MiB and leaves {room_mib:.1f} MiB unused, "
                "more than the {each_mib:.1f} MiB that a layer keeps. You pay for layers "
                "that need not be recomputed.",
                peak_mib=peak_mib,
                room_mib=room_mib - peak_mib,
                each_mib=each_mib,
            ),
        )


def ex09_inputs(answer: object, run: Any) -> None:
    """Check the bytes of the inputs that full recomputation keeps."""
    with Checklist("09.2") as check:
        given = check.number(answer, "kept_mib")
        check.started(run, "pretrain_gpt.py")
        flags_are(
            check,
            run,
            {GRANULARITY: "full"},
            {GRANULARITY: _("It keeps more than inputs. The question is about `forget`.")},
        )
        model, layout = gpt.model(run.recipe), gpt.layout(run.recipe)
        inputs = -(-model.layers // layout.recompute_layers)
        check.amount(
            given,
            _weight(inputs, layout.micro_batch, model),
            _("it is the size of the inputs"),
            hint=_(
                "One input holds {hidden} numbers (the hidden size) for every token that the "
                "device processes at once.",
                hidden=model.hidden,
            ),
        )


def _weight(inputs: int, micro_batch: int, model: Model) -> Amount:
    tokens, width = model.sequence, model.hidden
    each_bytes = micro_batch * tokens * width * FLOAT32_BYTES
    right = inputs * each_bytes / MIB
    return Amount(
        right=right,
        unit="MiB",
        slips=(
            in_other_unit(right, "MiB", "MB"),
            (WIDTHS_OF_A_LAYER * right, _("That is what `keep` keeps: sixteen widths per layer.")),
            (right / inputs, _("That is one input. The run keeps {inputs}.", inputs=inputs)),
            (
                inputs * (each_bytes + RANDOM_STATE_BYTES) / MIB,
                _(
                    "The traces show that number, and it counts more than inputs. Beside each "
                    "input torch keeps {random_state_bytes:,} bytes, to repeat the random numbers "
                    "of dropout.",
                    random_state_bytes=RANDOM_STATE_BYTES,
                ),
            ),
        ),
    )
