"""A 1F1B schedule as a learner's generator: right, or which slip."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from itertools import islice
from typing import Any

from course_lib.plan.checks import PlanError
from course_lib.plan.numbers import real
from course_lib.plan.schedules.steps import Orders, Step, orders
from course_lib.plan.schedules.timing import timed
from course_lib.teach.answers import in_short
from course_lib.teach.checklist import Checklist
from course_lib.teach.orders.calling import called, kept_alive

NAME = "one_f_one_b"
MOST_STAGES, MOST_MICRO_BATCHES = 8, 16
WORK = 3
"""Of one micro-batch on one stage: a backward pass is as long as two forward passes."""


def cases() -> list[tuple[int, int]]:
    """Stages and micro-batches; first those of the figures."""
    every = [(p, m) for p in range(1, MOST_STAGES + 1) for m in range(1, MOST_MICRO_BATCHES + 1)]
    return [(4, 8), (2, 4), (4, 2), *every]


def are_right(check: Checklist, function: Any) -> None:
    check.answered(function, NAME)
    check.unless(
        not callable(function),
        f"{NAME} is a function",
        hint=f"This is {type(function).__name__}. Give the check the function itself, without "
        "calling it.",
    )
    for stages, micro_batches in cases():
        made = [_steps(check, function, stages, stage, micro_batches) for stage in range(stages)]
        for stage, steps in enumerate(made):
            where = f"stage {stage} of {stages}, {micro_batches} micro-batches"
            _is_whole(check, steps, stages, micro_batches, where)
            _holds_few(check, made, stage, micro_batches)
        _ends_in_time(check, made, micro_batches)
    check.lines += [
        "✓ every micro-batch goes forward once and back once, in order",
        "✓ stage r of p never holds more than p − r micro-batches",
        f"✓ nobody waits for ever, and a step is as short as it can be: {MOST_STAGES} × "
        f"{MOST_MICRO_BATCHES} pipelines tried",
    ]


def _steps(
    check: Checklist, function: Callable[..., Any], stages: int, stage: int, micro_batches: int
) -> list[Step]:
    asked = f"{NAME}({stages}, {stage}, {micro_batches})"
    most = 2 * (micro_batches + stages)
    try:
        with kept_alive(), redirect_stdout(io.StringIO()):  # it is called some hundred times
            given = called(function, stages=stages, stage=stage, micro_batches=micro_batches)
            found = None if given is None or given is ... else list(islice(given, most + 1))
    except Exception as error:
        check.refuse(f"{asked} gives steps", _why(error))
    if found is None:
        check.refuse(f"{asked} gives steps", "It gives nothing yet: fill in the gap with yield.")
    check.unless(
        len(found) > most,
        f"{asked} ends",
        hint=f"It gives more than {most} steps. Each of the {micro_batches} micro-batches has two.",
    )
    steps = [_step(one) for one in found]
    for step, one in zip(steps, found, strict=True):
        if step is None:
            check.refuse(
                f"{asked} gives steps",
                f'It gives {in_short(one)}; a step is ("forward", 0) or ("backward", 0).',
            )
    return [step for step in steps if step is not None]


def _why(error: Exception) -> str:
    said = f"{type(error).__name__}: {str(error)[:200]}"
    if "init_process_group" not in said:
        return said
    return (
        f"{said}\nstage and stages are given: the order needs no ranks, and is tried without any."
    )


def _step(given: Any) -> Step | None:
    """Pairs, and the planner's own steps."""
    if isinstance(given, Step):
        return given
    try:
        phase, number = given
    except (TypeError, ValueError):
        return None
    count = real(number)
    if not isinstance(phase, str) or count is None or count != int(count):
        return None
    return Step(phase, int(count)) if phase in ("forward", "backward") else None


def _is_whole(
    check: Checklist, steps: Sequence[Step], stages: int, micro_batches: int, where: str
) -> None:
    forward, backward = (
        [step.micro_batch for step in steps if step.phase == phase]
        for phase in ("forward", "backward")
    )
    wanted = list(range(micro_batches))
    for name, found in (("forward", forward), ("backward", backward)):
        if sorted(found) == wanted:
            continue
        why = f"Forward has {forward}, backward has {backward}."
        missing = sorted(set(wanted) - set(found))
        beyond = [number for number in found if not 0 <= number < micro_batches]
        if found == list(range(1, micro_batches + 1)):
            why += " They are counted from 1; the first one is 0."
        elif beyond:
            why += f" There is no micro-batch {beyond[0]} among {micro_batches}."
            if beyond[0] < 0:
                why += " The warm-up is negative there."
            elif micro_batches < stages:
                why += (
                    " With fewer micro-batches than stages the pipeline is never full: "
                    "min(…, micro_batches)."
                )
        elif len(set(found)) < len(found):
            why += " One comes twice."
        elif name == "backward" and missing == wanted[missing[0] :]:
            why += " The last ones are missing: when all are forward, backward is not over."
        else:
            why += f" Missing: {', '.join(map(str, missing))}."
        check.refuse(f"each micro-batch goes {name} once ({where})", why)
    early = next((m for m in wanted if steps.index(Step("backward", m))
                  < steps.index(Step("forward", m))), None)  # fmt: skip
    check.unless(
        early is not None,
        f"backward comes after forward ({where})",
        hint=f"Backward of micro-batch {early} stands before its forward.",
    )
    for name, found in (("forward", forward), ("backward", backward)):
        check.unless(
            found != wanted,
            f"{name} passes in order ({where})",
            hint=f"They come as {found}. A stage gets what its neighbour has made, in that order: "
            "the first micro-batch that went in comes back first.",
        )


def _most_held(steps: Iterable[Step]) -> int:
    held = most = 0
    for step in steps:
        held += 1 if step.phase == "forward" else -1
        most = max(most, held)
    return most


def _holds_few(
    check: Checklist, made: Sequence[Sequence[Step]], stage: int, micro_batches: int
) -> None:
    stages, held = len(made), _most_held(made[stage])
    allowed = min(stages - stage, micro_batches)
    if held <= allowed:
        return
    every = [_most_held(steps) for steps in made]
    why = f"It holds {held}. "
    if all(one == micro_batches for one in every):
        why += (
            "All forward passes come first: that is GPipe. As soon as one micro-batch is back, "
            "its backward pass has to run."
        )
    elif every[0] == 1 and stages > 1:
        why += (
            "The warm-up grows towards the last stage, and it should shrink: the first stage "
            "waits longest for its first gradient."
        )
    elif len({*every[: max(1, stages)]}) == 1 and stages > 1:
        why += (
            "The warm-up is as long on every stage. Micro-batch 0 comes back to a late stage "
            "sooner."
        )
    elif held == allowed + 1:
        why += "The warm-up is one too long: p − r − 1 forward passes, then one and one in turn."
    elif held == micro_batches:
        why += "On this stage all forward passes come first, which is GPipe."
    else:
        why += "The warm-up is too long."
    where = f"stage {stage} of {stages}, {micro_batches} micro-batches"
    check.refuse(f"it holds at most p − r = {stages - stage} micro-batches ({where})", why)


def _ends_in_time(check: Checklist, made: Orders, micro_batches: int) -> None:
    stages = len(made)
    where = f"{stages} stages, {micro_batches} micro-batches"
    try:
        whole = float(timed(made)["end"].max())
    except PlanError as error:
        check.refuse(f"no stage waits for ever ({where})", str(error))
    wanted = WORK * (micro_batches + stages - 1)
    if whole <= wanted:
        return
    right = [_most_held(steps) for steps in orders("1f1b", stages, micro_batches)]
    why = f"It takes {whole:g} forward passes. "
    if all(_most_held(steps) == 1 for steps in made):
        why += "No stage has a warm-up: one micro-batch at a time passes the whole pipeline."
    elif any(_most_held(steps) < most for steps, most in zip(made, right, strict=True)):
        why += (
            "The warm-up is too short: stage r runs p − r − 1 forward passes ahead, one for each "
            "stage behind it, and the first of the pairs makes it p − r."
        )
    else:
        why += "Some stage works late. Which step could it have done sooner?"
    check.refuse(f"a step is as short as it can be: {wanted} forward passes ({where})", why)
