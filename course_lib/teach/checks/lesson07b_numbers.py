"""Exercises 07b.2 and 07b.3: micro-batches for a small bubble, and the batch from which on the
gradients are less than the activations."""

from __future__ import annotations

import math
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import global_batch, gradient_bytes, whole_flag
from course_lib.teach.slips import Quantity, Slip

STAGES, MOST_BUBBLE = 8, 0.1
BYTES_PER_NUMBER = 4


def ex07b_bubble(answer: object) -> None:
    """Micro-batches that a pipeline of eight stages needs for a bubble of a tenth of the time."""
    with Checklist("07b.2") as check:
        given = check.count(answer, "micro_batches_needed", "micro-batches")
        waiting = STAGES - 1
        least = round(waiting * (1 - MOST_BUBBLE) / MOST_BUBBLE)
        check.unless(
            0 < given < 1,
            "it is a number of micro-batches",
            hint=f"{given:g} is a share, such as that of the bubble. How many micro-batches make "
            "it so small?",
        )
        slips = _bubble_slips(waiting, least)
        check.no_slip(given, slips, "it is a share of the whole time that is spent waiting")
        check.unless(
            not given.is_integer() or given < 1,
            "it is a number of micro-batches",
            hint=f"{given:g} micro-batches cannot be sent. Round to a whole number, and think of "
            "which way.",
        )
        share = 100 * waiting / (given + waiting)
        check.that(
            given >= least,
            "the bubble is at most 10 % of the time",
            hint=f"With {given:g} micro-batches it is {share:.1f} %.",
        )
        check.that(
            given == least,
            "no smaller number is enough",
            hint=f"With {given:g} micro-batches the bubble is {share:.1f} %. It may be larger.",
        )


def _bubble_slips(waiting: int, least: int) -> Quantity:
    of_the_work = round(waiting / MOST_BUBBLE)
    all_stages = (
        "You seem to have put all stages into the numerator. A step lasts m + p - 1 units: how many"
        " of them does one stage wait?"
    )
    own = (
        (
            of_the_work,
            f"With {of_the_work} the idle time is a tenth of the *work*. The question asks for a "
            "tenth of the whole time, waiting included: fewer are enough.",
        ),
        (STAGES / MOST_BUBBLE, all_stages),
        (STAGES * (1 - MOST_BUBBLE) / MOST_BUBBLE, all_stages),
        (math.ceil(least / 2), "That is for two chunks on each stage. This pipeline has one."),
        (least / 2, "That is for two chunks on each stage. This pipeline has one."),
        (least + 1, "You are off by one, or took p for p − 1. Fewer are enough."),
        (least - 1, "You are off by one: that is just too much waiting. Round up."),
        (
            round(waiting * (1 - 0.05) / 0.05),
            "That is for 5 %. The bubble may be a tenth of the time.",
        ),
        (2 * least, "That is twice as many: backward fills the same gaps as forward."),
        (STAGES, "As many micro-batches as stages leave nearly half of the time as bubble."),
        (2 * STAGES, "Twice the stages is far from enough for a tenth."),
        (waiting, "That is how many units a stage waits. What share of the whole is that?"),
        (STAGES * waiting, "That is how long all stages wait together. One stage waits 7 units."),
        *(
            (number, "That is for four stages, as in the pictures. Here there are eight.")
            for number in (3 * 9, 3 / MOST_BUBBLE)
        ),
        (100 * (1 - MOST_BUBBLE), "That is how many percent of the time are work."),
        (100 * MOST_BUBBLE, "That is how many percent of the time are bubble."),
        (of_the_work + 1, "That is one more than 70, and 70 has the waiting in it already."),
        (least / 3, "That is for the zero-bubble order, which leaves a third. Here it is 1F1B."),
        (of_the_work + STAGES, "That is more than enough: take the waiting away, do not add it."),
        (of_the_work + waiting, "That is the length of a step with 70 micro-batches, not fewer."),
    )
    return Quantity(right=least, own=own)


def ex07b_crossing(answer: object, run: Any) -> None:
    """The batch from which on sending gradients is cheaper than sending activations."""
    with Checklist("07b.3") as check:
        given = check.count(answer, "crossing_batch", "samples")
        check.started(run, "pretrain_gpt.py")
        data = check.left(run, "log").world.data
        check.that(
            data == run.devices > 1,
            "the run handed in is the one with data parallelism only",
            hint=f"{run.name} has data-parallel size {data} on {run.devices} devices.",
        )
        gradients = gradient_bytes(check, run)
        tokens, width = whole_flag(run, "--seq-length", 1), whole_flag(run, "--hidden-size", 1)
        sent, per_sample = 2 * (data - 1) / data * gradients, 2 * BYTES_PER_NUMBER * tokens * width
        first = data * math.ceil(sent / per_sample / data)
        slips = _crossing_slips(sent / per_sample, first, data, global_batch(run), sent / 1e6)
        check.no_slip(given, slips, "it counts what each sends")
        check.that(
            given > 0 and given % data == 0,
            f"{data} copies can share it evenly",
            hint=f"{given:g} samples cannot be shared so. Which multiple of {data} comes next?",
        )
        check.that(
            given == first,
            "it is the first batch with which data parallelism sends no more",
            hint=f"With {given:g} samples the pipeline sends {per_sample * given / 1e6:.2f} MB, "
            f"data parallelism {sent / 1e6:.2f} MB. "
            + ("There is a smaller one." if given > first else "The pipeline still sends less."),
        )


def _crossing_slips(
    exact: float, first: int, data: int, batch: int | None, sent_mb: float
) -> Quantity:
    """The batch may have been rounded already, either way."""
    ring = 2 * (data - 1) / data
    slips = (
        (
            2 * exact,
            "You let the pipeline send R once per sample. How many ranks of stage 0 send it?",
        ),
        (
            exact / 2,
            "You let the pipeline send R four times per sample. What comes back in the backward "
            "pass is sent by the other stage, at the same time.",
        ),
        (
            exact / ring,
            "You let every device send its gradients once. In the ring they travel further "
            "(lesson 03).",
        ),
        (2 * exact / ring, f"The factor of a ring of {data} is 2 ({data} − 1) / {data}, not 2."),
        (exact / BYTES_PER_NUMBER, "Gradients have 4 bytes each, and so have activations."),
        (exact * BYTES_PER_NUMBER, "Gradients have 4 bytes each, and so have activations."),
        (exact / data, "That is what one of the copies takes. The batch counts over all of them."),
        (exact * data, "The batch counts over all copies already: do not multiply by them."),
    )
    own: list[Slip] = []
    for value, said in slips:
        down = data * math.floor(value / data)
        rounded = (value, math.floor(value), math.ceil(value), down, down + data)
        own += [(each, said) for each in rounded]
    for value in (exact * batch, exact / batch) if batch and batch > 1 else ():
        said = "R is what one sample sends, and not all of a step of this run."
        own += [(each, said) for each in (value, data * math.ceil(value / data))]
    known = {} if batch in (None, first) else {"the batch of this run": float(batch or 0)}
    known |= _on_the_way(exact, sent_mb, batch or 0)
    return Quantity(right=first, own=tuple(own), known=known)


def _on_the_way(exact: float, sent_mb: float, batch: int) -> dict[str, float]:
    return {
        "the MB that data parallelism sends": sent_mb,
        "one over the batch": 1 / exact,
        "how many times as much data parallelism sends with the batch of this run": exact
        / max(batch, 1),
    }
