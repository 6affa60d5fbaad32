"""What data parallelism sends, and when: nothing twice, nothing kept, buckets beside backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.ends import called, never_waited_for
from course_lib.teach.trials.verdict import Event, Trial

STEPS = ("gradients of step 1", "gradients of step 2")
TWICE = 1.5
"""Sums of a loss or a norm may go beside the gradients."""
KEPT = 0.5

FROM_THREADS = (
    "Calls come from several threads. Their order is chance, and each rank may have another one: "
    "the first call of one meets the first of the others."
)


def is_own_work(check: Checklist, trial: Trial) -> None:
    """All of it: what was asked for was waited for, sent once, and by lines of the learner's."""
    for size, case in trial.cases:
        unfinished = never_waited_for(trial, size, case)
        check.unless(bool(unfinished), "every work was waited for", hint=f"{case}: {unfinished}")
    made = [call for _, call in trial.all("call") if call["case"] in STEPS]
    others = [call for call in made if call.get("own") is False]
    check.that(
        bool(made) and not others and not trial.all("torch's own"),
        "the collectives are called in your own lines",
        hint=_whose(trial, made, others),
    )
    _sends_once(check, trial)
    _keeps_nothing(check, trial)


def _whose(trial: Trial, made: Sequence[Event], others: Sequence[Event]) -> str:
    if trial.all("torch's own"):
        return "PyTorch's own DistributedDataParallel does the work. It is to be written out."
    if others:
        return f"{called(others[0])} was called by none of your lines, in {others[0]['phase']}."
    return "No call was seen, neither in backward nor in finish()."


def _sends_once(check: Checklist, trial: Trial) -> None:
    size, numbers = _size_and_numbers(trial)
    summed = [
        sum(call.get("numbers", 0) for call in calls[0] if call["call"] == "all_reduce")
        for calls in (trial.at(size, case, "call") for case in STEPS)
    ]
    hint = (
        f"All-reduces of a step sum {max(summed)} numbers, and there are {numbers} gradients: "
        "they are sent more than once."
    )
    if summed[1] > TWICE * summed[0]:
        hint = (
            f"Step 1 sums {summed[0]} numbers, and step 2 {summed[1]}: each step does what the one "
            "before did once more. Are hooks registered anew in each forward?"
        )
    check.unless(max(summed) > TWICE * numbers, "each gradient is sent once", hint=hint)


def _keeps_nothing(check: Checklist, trial: Trial) -> None:
    """Of step 1, when step 2 is over."""
    size, numbers = _size_and_numbers(trial)
    first, second = (trial.at(size, case, "alive")[0][-1]["numbers"] for case in STEPS)
    check.unless(
        second - first > KEPT * numbers,
        "nothing of a step is kept for the next one",
        hint=f"After step 2 tensors have {second - first} numbers more than after step 1: what was "
        "sent is kept, and grows with every step. Is a list never emptied?",
    )


def _size_and_numbers(trial: Trial) -> tuple[int, int]:
    size = max(trial.cases)[0]
    result = trial.at(size, STEPS[0], "result")[0][-1]
    return size, sum(result["parameters"].values())


def in_buckets(check: Checklist, trial: Trial) -> None:
    size, _ = _size_and_numbers(trial)
    parameters = len(trial.at(size, STEPS[1], "result")[0][-1]["parameters"])
    calls = trial.at(size, STEPS[1], "call")[0]
    waited = trial.at(size, STEPS[1], "waited")[0]
    times = Counter(call["call"] for call in calls if call.get("numbers"))
    during = [call for call in calls if _is_during(call, parameters)]
    check.that(
        bool(during),
        "the first bucket is sent while backward goes on",
        hint=_why_late(calls, parameters),
    )
    check.unless(
        any(call.get("thread") for call in during),
        "one thread sends",
        hint=FROM_THREADS,
    )
    early = next(_waits(calls, waited, parameters), "")
    check.that(not early, "and backward does not wait for it", hint=early)
    most = max(times.values(), default=0)
    check.that(
        1 < most < parameters,
        f"several gradients share a bucket: {most} calls for {parameters} parameters",
        hint=f"{most} calls for {parameters} parameters. "
        "Every call costs its latency; a bucket collects several gradients.",
    )


def _is_during(call: Event, parameters: int) -> bool:
    return call["phase"] == "backward" and bool(call["after"] < parameters)


def _why_late(calls: Sequence[Event], parameters: int) -> str:
    if any(call["phase"] == "backward" for call in calls):
        return (
            f"The first call comes when all {parameters} gradients are there: nothing is left to "
            "compute beside it. A bucket goes as soon as it has 80 numbers (p.numel() counts them)."
        )
    if len(calls) == 1:
        return (
            f"All calls come after backward: one of {calls[0]['numbers']} numbers, so no bucket "
            "was full before. It is to have 80 numbers or more, which p.numel() counts."
        )
    return (
        "All calls come after backward. A hook by register_post_accumulate_grad_hook runs "
        "when a gradient is ready."
    )


def _waits(calls: Sequence[Event], waited: Sequence[Event], parameters: int) -> Iterator[str]:
    """What backward stands still for while gradients are still to come."""
    for call in calls:
        if call.get("async") is False and _is_during(call, parameters):
            yield (
                f"{call['call']}(…) returns when the sum is there, and backward stands still until "
                "then. With async_op=True it returns at once, with a work whose wait() finish() "
                "can call."
            )
    for one in waited:
        if one["blocks"] and _is_during(one, parameters):
            number = one["number"]
            begun = called(calls[number]) if number is not None else "a call"
            yield (
                f"{begun} was begun, and waited for when {one['after']} of {parameters} gradients "
                "were there: backward stands still until it has gone. finish() is the place to "
                "wait."
            )
