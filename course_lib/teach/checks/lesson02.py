"""Lesson 02, many processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import EXACT, Quantity
from course_lib.teach.trials import verdict
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.verdict import Event, Trial

NEAR = 1e-3
ROUNDING = 0.05
"""Pieces differ by one number where the ranks do not divide a tensor."""

COUNTED_FROM_0 = "Nodes and ranks are counted from 0."
NODES, EACH, RANK, WORLD = 8, 4, 22, 32
"""Of exercise 02.1."""
TOLD = {"the nodes": NODES, "the ranks of a node": EACH, "the rank": RANK, "all ranks": WORLD}
RANKS: dict[str, tuple[float, str, dict[float, str], str]] = {
    "world_size": (
        32, "the world has that many ranks",
        {8: "These are the nodes.", 4: "These are on one node.",
         12: "Each of the 8 nodes has 4 ranks: a product, not a sum."},
        "One rank for each device of each node.",
    ),
    "node": (
        5, "rank 22 is on that node",
        {6: COUNTED_FROM_0, 2: "Each node has 4 ranks, not 8.", 5.5: "Whole nodes: 22 // 4.",
         2.75: "Each node has 4 ranks, not 8.", 5.75: COUNTED_FROM_0, 7: "That is the last node.",
         0: "That is the first node, of ranks 0 to 3.", 88: "You multiplied where one divides."},
        "Ranks 0 to 3 are on node 0, 4 to 7 on node 1, and so on.",
    ),
    "local_rank": (
        2, "it has that local rank there",
        {3: COUNTED_FROM_0, 22: "That is its rank among all.", 6: "Each node has 4 ranks, not 8.",
         5: "That is its node. The rest of the division, 22 % 4, is its place there.",
         5.5: "22 / 4 tells the node; the rest of the division, 22 % 4, the place there.",
         0.5: "That is the rest as a fraction of a node. How many ranks are that?",
         0: "That is the first rank of the node, 20.", 18: "Take away all whole nodes before it.",
         2.75: "Each node has 4 ranks, not 8."},
        "Ranks 20 to 23 share its node. Which of them is it?",
    ),
    "numbers": (
        1, "it ends with so many numbers of the sum",
        {32: "That is what all_reduce leaves.", 8: "That is a piece for each rank of one node.",
         4: "That is a piece for each node.", 0: "Each rank keeps one piece of the sum.",
         16: "That is half. The sum has as many pieces as there are ranks.",
         1024: "You multiplied by the ranks. The sum has 32 numbers, as each summand.",
         31: "That is what it does not keep.", 62 / 32: "That is what a ring of 32 sends.",
         1 / 32: "That is the share of one piece. How many numbers are in it?"},
        "The sum has as many pieces as there are ranks, and each rank keeps one.",
    ),
}  # fmt: skip


def ex02_ranks(node: object, local_rank: object, world_size: object, numbers: object) -> None:
    """Rank 22 on 8 nodes with 4 devices each, and what reduce_scatter leaves of 32 numbers."""
    with Checklist("02.1") as check:
        given = {
            "world_size": check.number(world_size, "world_size"),
            "node": check.number(node, "node"),
            "local_rank": check.number(local_rank, "local_rank"),
            "numbers": check.number(numbers, "numbers"),
        }
        for name, (right, words, slips, otherwise) in RANKS.items():
            wanted = Quantity(right=right, share=EXACT, own=tuple(slips.items()), known=TOLD)
            check.amount(given[name], wanted, words, hint=otherwise)


def ex02_ring(run: Any) -> None:
    """A sum over all ranks, in place, by sends and receives round a ring."""
    with Checklist("02.2") as check:
        trial = verdict.trial_of(check, run, "ring")
        came_through(check, trial, run)
        verdict.is_equal(check, trial, _why_ring)
        _sends_no_more(check, trial)


def _why_ring(trial: Trial, rank: int, event: Event) -> str:
    size = event["size"]
    if event["slip"] == "shape":
        return f"the result has shape {event['has']}, the tensor had {event['wanted']}."
    if event["slip"] == "dtype":
        return f"the result is {event['has']}; the tensor was float64, and is to stay so."
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the sum. Every rank needs it."
    if event["slip"] == "unchanged":
        return (
            "the tensor is what it was. Changing it in place means tensor += … or "
            "tensor.copy_(…); `tensor = …` gives another tensor the name."
        )
    return _why_pieces({n: piece for n, piece in enumerate(event["shares"]) if piece}, size)


def _why_pieces(held: dict[int, list[float]], size: int) -> str:
    """By the number of the piece: how often each rank's numbers are in it."""
    shares = {round(share, 3) for piece in held.values() for share in piece}
    if shares == {round(1 / size, 3)}:
        return "this is the mean. All-reduce leaves the sum; who wants a mean divides afterwards."
    if len(shares) == 1:
        times = shares.pop()
        return f"every rank's numbers are in it {times:g} times instead of once."
    whole = sum(all(abs(share - 1) < NEAR for share in piece) for piece in held.values())
    table = "\n".join(
        f"  piece {n}: " + ", ".join(f"{share + 0:g} × rank {r}" for r, share in enumerate(piece))
        for n, piece in held.items()
    )
    if any(share > 1 + NEAR for piece in held.values() for share in piece):
        why = "numbers were added more than once: in the second round a piece replaces another."
    elif held and whole == 1:
        why = "one piece is whole: the first round is right, the second does not hand it on."
    elif held:
        why = "ranks are missing: which piece is passed on in which step?"
    else:
        why = "it is no sum of the ranks' numbers: was a piece overwritten while it was sent?"
    return f"{why}\n{table}".strip()


def _sends_no_more(check: Checklist, trial: Trial) -> None:
    results = [(rank, event) for rank, event in trial.all("result")]
    used = sorted({name for _, event in results for name in event["travelled"]["collectives"]})
    check.that(
        not used,
        "sends and receives did all the work",
        hint=f"It calls {', '.join(used)}, which is what it is to be written out.",
    )
    size = max(event["size"] for _, event in results)
    last = [event["travelled"] for _, event in results if event["size"] == size][-1]
    most, messages, wanted = last["sent"], last["messages"], 2 * (size - 1) / size
    check.that(
        most <= wanted + ROUNDING,
        f"each rank sent 2 (n − 1) / n of the tensor: {wanted:g} times on {size} ranks",
        hint=f"On {size} ranks each sent {most:g} times the tensor, in {messages} messages. A ring "
        "cuts the tensor into as many pieces as there are ranks, and sends one piece a step.",
    )


def ex02_ddp(run: Any) -> None:
    """Data parallelism: the weights of rank 0, the mean of the gradients."""
    with Checklist("02.3") as check:
        trial = verdict.trial_of(check, run, "ddp")
        _is_ddp(check, trial, run)


def ex02_buckets(run: Any) -> None:
    """The same, in buckets that are sent while backward goes on."""
    with Checklist("02.4") as check:
        trial = verdict.trial_of(check, run, "buckets")
        _is_ddp(check, trial, run)
        size, case = max(trial.cases)[0], "gradients of step 2"
        parameters = len(trial.at(size, case, "result")[0][-1]["parameters"])
        _in_buckets(check, trial.at(size, case, "call")[0], parameters)


def _is_ddp(check: Checklist, trial: Trial, run: Any) -> None:
    came_through(check, trial, run)
    verdict.is_equal(check, trial, _why_ddp)
    check.that(
        any(call["case"].startswith("gradients") for _, call in trial.all("call")),
        "the collectives are called in your own lines",
        hint="No call was seen. Is it PyTorch's own DistributedDataParallel that does the work?",
    )


def _why_ddp(trial: Trial, rank: int, event: Event) -> str:
    if event["slip"] == "weights":
        return _why_weights(event)
    size, wrong = event["size"], event["wrong"]
    called = trial.at(size, event["case"], "call")[rank]
    told = _of_gradients(event, rank, size, called)
    if right := verdict.right_on(trial, event):
        some = "rank 0 has" if right == [0] else f"ranks {verdict.listed(set(right))} have"
        return (
            f"only {some} the right gradients. What is reduced or gathered to one rank is on that "
            "rank alone; all ranks need it."
        )
    if len(wrong) < event["of"]:
        told = f"only {', '.join(wrong)} of {event['of']} parameters: {told}"
    return told


def _why_weights(event: Event) -> str:
    names = ", ".join(event["wrong"][:4]) + (" …" if len(event["wrong"]) > 4 else "")
    if event["case"] != "weights after wrapping":
        return f"{names} differ from the serial model's. Were they changed beside the optimizer?"
    if len(event["own"]) == event["of"]:
        return (
            "the weights are still this rank's own: the broadcast is missing. Ranks that begin "
            "with different weights train different models, however well gradients are averaged."
        )
    if event["own"]:
        return (
            f"{names} still this rank's own, others are rank 0's. model.parameters() does not hold "
            "what a layer keeps beside them (buffers); model.state_dict() holds all."
        )
    return f"{names} are neither rank 0's nor this rank's own."


def _of_gradients(event: Event, rank: int, size: int, called: Sequence[Event]) -> str:
    found = [shares for shares in event["shares"].values() if shares]
    if not found:
        return "the gradients are no weighted sum of the ranks' gradients: were some mixed up?"
    shares = found[0]
    alike = max(shares) - min(shares) < NEAR
    own = [1.0 if r == rank else 0.0 for r in range(size)]
    if max(abs(a - b) for a, b in zip(shares, own, strict=True)) < NEAR:
        return "the gradients are still this rank's own: nothing was exchanged."
    if alike and abs(shares[0] - 1) < NEAR:
        return _why_sum(event, size, called)
    if alike and abs(shares[0] - 1 / size**2) < NEAR:
        return f"they were divided by {size} twice: once is the mean."
    if alike:
        times = shares[0] * size
        return f"they are {times:g} times the mean: summed, or divided, once too often."
    table = ", ".join(f"{share:g} × rank {r}" for r, share in enumerate(shares))
    return f"they hold {table}; the mean holds {1 / size:g} of each."


def _why_sum(event: Event, size: int, called: Sequence[Event]) -> str:
    sent = sum(call.get("numbers", 0) for call in called if call["call"] == "all_reduce")
    if sent >= 2 * sum(event["parameters"].values()):
        return (
            "the gradients are summed twice: two all_reduce calls for each. The second one sums "
            f"{size} equal numbers."
        )
    return (
        "this is the sum over the ranks, not the mean: it is not divided by the number of ranks. "
        "Each loss is a mean over its rank's samples, and the whole is to be a mean over all."
    )


def _in_buckets(check: Checklist, calls: Sequence[Event], parameters: int) -> None:
    """Calls of one step."""
    during = [call for call in calls if call["phase"] == "backward"]
    check.that(
        bool(during),
        "the first bucket is sent while backward goes on",
        hint="All calls come after backward. A hook by register_post_accumulate_grad_hook runs "
        "when a gradient is ready.",
    )
    check.that(
        all(call.get("async") for call in during),
        "and backward does not wait for it",
        hint="all_reduce(…) returns when the sum is there, and backward stands still until then. "
        "With async_op=True it returns at once, with a work whose wait() finish() can call.",
    )
    check.that(
        1 < len(calls) < parameters,
        f"several gradients share a bucket: {len(calls)} calls for {parameters} parameters",
        hint=f"{len(calls)} calls for {parameters} parameters. "
        + ("One bucket is complete only when backward is over." if len(calls) == 1 else
           "Every call costs its latency; a bucket collects several gradients."),
    )  # fmt: skip
