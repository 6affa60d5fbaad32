"""Lesson 13b, long sequences over ranks."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import DEVICE_MEMORY
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, ran_out, whole_flag
from course_lib.teach.orders import pieces
from course_lib.teach.trials import layer_hints, layers

DEVICES, MEMORY_MIB = 4, 300
CUTS = ("--tensor-model-parallel-size", "--context-parallel-size")
WITH_QUERIES = 2.95
"""In gathers of as many numbers as x has: keys and values are two, positions far less than one."""
SAME = 1e-4
"""Of the losses; they are printed with six digits."""


def ex13b_pieces(function: Any) -> None:
    """Positions of a causal sequence, so that all ranks have the same work."""
    with Checklist("13b.1") as check:
        pieces.are_right(check, function)


def ex13b_context(run: Any) -> None:
    """Attention over a sequence that is cut, and the gradients of its weights."""
    with Checklist("13b.2") as check:
        trial = layers.equal_to_serial(check, run, "context", layer_hints.CONTEXT)
        size = max(size for size, _ in trial.cases)
        sent = layers.sent(trial, size, "forward")
        check.that(
            sent < WITH_QUERIES * (size - 1) / size,
            "keys and values travel, queries do not",
            hint=f"Forward calls {layers.calls_in(trial, size, 'forward')}, and sends {sent:.3g} "
            f"times what x has on all {size} ranks. Queries stay where they are: gather keys and "
            "values, and the positions they belong to.",
        )


def ex13b_shared(run: Any, other: Any) -> None:
    """One weather model on four devices of 300 MiB, with as much context as fits."""
    with Checklist("13b.3") as check:
        check.started(other, "train_vit.py", "the run with tensor 4")
        if getattr(run, "state", "") == "FAILED" and ran_out(run):
            tensor, context = (whole_flag(run, name, 1) for name in CUTS)
            check.refuse(
                "the model fits",
                f"With tensor {tensor} it does not: weights are cut into {tensor}, and {context} "
                "context ranks have each piece whole. More tensor, less context.",
            )
        check.started(run, "train_vit.py", "`shared`")
        tensor, context = (whole_flag(run, name, 1) for name in CUTS)
        asked = run.recipe.environment.get(DEVICE_MEMORY)
        check.that(
            run.recipe.devices == DEVICES and asked == str(MEMORY_MIB * MIB),
            f"it ran on {DEVICES} devices of {MEMORY_MIB} MiB",
            hint='Take forecaster("shared", 300, …), which asks for them.',
        )
        check.that(
            tensor * context == DEVICES,
            "all four share one model",
            hint=f"Tensor {tensor} × context {context} is {tensor * context}: the other ranks have "
            "a second model and other samples.",
        )
        check.that(
            tensor == context,
            "with as much context as fits",
            hint="Context 4 has all weights on every rank, 235 MB and what DDP keeps."
            if context > tensor
            else "Tensor 4 fits in 160 MiB. A rank may have twice the weights now.",
        )
        _same_losses(check, run, other)


def _same_losses(check: Checklist, run: Any, other: Any) -> None:
    mine, theirs = (
        check.left(one, "log").epochs[["train_loss", "validation_loss"]].dropna()
        for one in (run, other)
    )
    check.that(
        len(mine) == len(theirs) > 0
        and bool((abs(mine.to_numpy() - theirs.to_numpy()) < SAME * theirs.to_numpy()).all()),
        "its losses are those of tensor 4",
        hint="They differ, so these are not the same model and samples. Change tensor= and "
        "context= alone.",
    )
