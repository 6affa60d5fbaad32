"""Checks of lesson 09, activation checkpointing."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, same_training, whole_flag
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

GRANULARITY, METHOD = "--recompute-granularity", "--recompute-method"
LAYERS = "--recompute-num-layers"
ASK_FOR_MEMORY = N_("Give the recipe memory=(6, 7), as `common` does.")


def ex09_fits(run: Any, keep: Any, room: object) -> None:
    """Check that as few layers as possible are recomputed to bring the peak under a limit."""
    with Checklist("09.1") as check:
        room_mib = check.number(room, "room_mib")
        runs = {"fits_run": run, "keep": keep}
        for name, one in runs.items():
            check.started(one, "pretrain_gpt.py", _("the run `{name}`", name=name))
        same_training(check, run.recipe, keep.recipe, "`keep`", but=(GRANULARITY, METHOD, LAYERS))
        flags = run.recipe.flags
        whole = _("Which run keeps nothing of a layer except its input?")
        check.equal(flags.get(GRANULARITY), "full", GRANULARITY, hint=whole)
        counts = _(
            "With another method the number is the size of a group, and every layer is "
            "recomputed. This method counts layers."
        )
        check.equal(flags.get(METHOD), "block", METHOD, hint=counts)
        peak_mib, all_mib = (
            memory_of_rank_0(
                check, one, _("the run `{name}`", name=name), _(ASK_FOR_MEMORY)
            ).peak_bytes
            / MIB
            for name, one in runs.items()
        )
        each_mib = (all_mib - peak_mib) / whole_flag(run, LAYERS, 1)
        check.that(
            peak_mib <= room_mib,
            _("the peak is within {room_mib:.1f} MiB", room_mib=room_mib),
            hint=_(
                "The run peaks at {peak_mib:.1f} MiB, {peak_mib2:.1f} MiB too much. Each "
                "recomputed layer saves about {each_mib:.1f} MiB.",
                peak_mib=peak_mib,
                peak_mib2=peak_mib - room_mib,
                each_mib=each_mib,
            ),
        )
        check.that(
            peak_mib + each_mib > room_mib,
            _("one layer less would not have been enough"),
            hint=_(
                "The run peaks at {peak_mib:.1f} MiB and leaves {room_mib:.1f} MiB unused, more "
                "than the {each_mib:.1f} MiB that a layer keeps. You pay for layers that need not "
                "be recomputed.",
                peak_mib=peak_mib,
                room_mib=room_mib - peak_mib,
                each_mib=each_mib,
            ),
        )


ex09_checkpoint = tried("09.2", "checkpoint")
