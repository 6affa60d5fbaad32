"""Lesson 11, sharded data parallelism."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import Quantity
from course_lib.teach.trials import verdict
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.sharding.fsdp import is_gathered_again, why_fsdp
from course_lib.teach.trials.sharding.whole_gradients import left_whole
from course_lib.teach.trials.sharding.zero1 import why_zero1
from course_lib.teach.trials.verdict import Event, Trial

FLOPS_PER_S, LINK_BYTES_PER_S, BYTES, FLOPS = 400e12, 50e9, 2, 2
"""Of exercise 11.3; the last two for each parameter, the last also for each token."""


def ex11_zero1(run: Any) -> None:
    """Optimizer state of a shard: reduce-scatter, step, all-gather."""
    with Checklist("11.1") as check:
        trial = verdict.trial_of(check, run, "zero1")
        came_through(check, trial, run)
        verdict.is_equal(check, trial, why_zero1)
        _state_is_cut(check, trial)
        _is_scattered(check, trial, "before")


def _state_is_cut(check: Checklist, trial: Trial) -> None:
    first = trial.cases[0][1].split(",")[0]  # the case that every number of ranks divides
    size = max(event["size"] for _, event in trial.all("result"))
    found = [e for _, e in trial.all("result") if e["size"] == size and e["case"].startswith(first)]
    numbers, most = found[0]["numbers"], max(event["state"] for event in found)
    check.unless(
        most == 0,
        "the optimizer is the one of make_optimizer",
        hint="None was made. Call make_optimizer([…]) with the tensors that it is to update.",
    )
    check.that(
        most <= 1.4 * numbers / size,
        f"each rank keeps state for {most} of {numbers} numbers, on {size} ranks",
        hint=f"On {size} ranks one keeps state for {most} of {numbers} numbers; its shard has "
        f"{-(-numbers // size)}. The state is as large as what make_optimizer is given"
        + (": all parameters. Give it the shard." if most >= numbers else "."),
    )
    check.unless(
        any(event["views"] for event in found),
        "the shard stands alone",
        hint="What make_optimizer was given is a view into a longer row, which it keeps in memory. "
        "A copy by .clone() stands alone.",
    )


def _is_scattered(check: Checklist, trial: Trial, phase: str) -> None:
    whole = left_whole(trial, phase)
    check.that(not whole, "each rank was handed its own part of the gradients", hint=whole)


def ex11_fsdp(run: Any) -> None:
    """Parameters too: gathered before use, freed after it."""
    with Checklist("11.2") as check:
        trial = verdict.trial_of(check, run, "fsdp")
        came_through(check, trial, run)
        verdict.is_equal(check, trial, why_fsdp)
        _is_scattered(check, trial, "backward")
        _is_freed(check, trial)


def _is_freed(check: Checklist, trial: Trial) -> None:
    size = max(event["size"] for _, event in trial.all("result"))
    found = [event["held"] for _, event in trial.all("result")
             if event["size"] == size and "held" in event]  # fmt: skip
    _is_freed_in_time(check, found)
    check.unless(
        not is_gathered_again(trial),
        "the layers were gathered again for backward",
        hint="Parameters were gathered in forward and never in backward: their numbers were kept "
        "from then. Until backward comes, a layer is to have no room.",
    )
    rows = [layer for held in found for layer in held["row of gradients"]]
    check.unless(
        bool(rows),
        "no rank kept whole gradients",
        hint="shard.grad is a view into a row of gradients, which it keeps in memory. A copy by "
        ".clone() stands alone.",
    )
    check.that(
        not any(held["gradients"] for held in found),
        "no rank kept whole gradients",
        hint="The layer's parameters still have whole gradients: p.grad = None gives their room "
        "back, once the shard has its own.",
    )
    kept = [one for held in found for one in held["kept"]]
    check.that(
        not kept,
        "and nothing else holds a whole layer",
        hint=_why_kept(kept[0]) if kept else "",
    )


def _is_freed_in_time(check: Checklist, found: list[dict[str, Any]]) -> None:
    early: Event = next((held["forward"] for held in found if "forward" in held), {})
    check.that(
        not early,
        "each layer was freed before the next one computed",
        hint="" if not early else
        f"While layer {early['at']} computed, layer {early['layer']} was still whole. With a "
        "hundred layers all would be, and nothing would be saved: free after self.layer(x).",
    )  # fmt: skip
    check.that(
        not any("backward" in held or held["after"] for held in found),
        "and each was freed again in the backward pass",
        hint="A layer was still whole when its backward pass was over. It was gathered once more "
        "for that: free it as soon as its gradients have gone.",
    )
    ahead: Event = next((held["early"] for held in found if "early" in held), {})
    check.unless(
        bool(ahead),
        "no more than two layers were whole at once",
        hint="" if not ahead else
        f"While layer {ahead['at']} computed, layer {ahead['layer']} was whole already. The next "
        "one may be gathered meanwhile; with all at once nothing is saved.",
    )  # fmt: skip


def _why_kept(held: Event) -> str:
    return (
        f"`{held['name']}` still holds {held['numbers']} numbers of layer {held['layer']}, which "
        f"has {held['of']}. What is whole is to go once it was used."
    )


def ex11_tokens(answer: object) -> None:
    """From how many tokens a device computes as long as a layer takes to come."""
    right = FLOPS_PER_S * BYTES / (LINK_BYTES_PER_S * FLOPS)
    own = (
        (right * 2, "Count again: 2 bytes for each parameter, and 2 FLOPs for each token."),
        (right / 2, "Count again: 2 bytes for each parameter, and 2 FLOPs for each token."),
        (right / 3, "6 FLOPs are forward and backward together; the gather goes beside forward."),
        (right * 8, "50 GB/s are bytes, not bits."),
        (right / 8, "50 GB/s are bytes, not bits."),
        (
            right * 6,
            "6 FLOPs are forward and backward, and they stand in the denominator.",
        ),
        (right / 6, "6 FLOPs are forward and backward, and a gradient is no part of the gather."),
        (right / 4, "4 bytes and 4 FLOPs, or one of them: count again, 2 bytes and 2 FLOPs."),
        (right * 1.5, "1.5 is the factor of a ring of four: take the bandwidth as it is."),
        (1 / right, "That is the other way round: tokens, not its inverse."),
    )
    with Checklist("11.3") as check:
        given = check.number(answer, "tokens_needed")
        check.amount(
            given,
            Quantity(right=right, unit="tokens", own=own),
            "the gather takes as long as the forward pass of that many tokens",
            hint="Seconds to gather P parameters: 2 P / 50e9. Seconds to compute T tokens with "
            "them: 2 P T / 400e12. P falls out.",
        )
