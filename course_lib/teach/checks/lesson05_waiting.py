"""Exercise 05.3: which share of the device time went into waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import recorded_steps
from course_lib.teach.slips import ROUNDED, Quantity, Slip

CLOSE_ENOUGH = 0.05


def ex05_waiting(answer: object, ill: Any) -> None:
    """Which share of the device time of all ranks went into waiting for another rank."""
    with Checklist("05.3") as check:
        given = check.number(answer, "waiting_percent")
        check.succeeded(ill, "the run `ill`")
        profile = check.left(ill, "profile", "the run `ill`")
        table = profile.communication.groupby("rank")
        waits_us, spent_us = table["synchronising_us"].sum(), table["total_us"].sum()
        check.that(
            len(waits_us) > 1,
            "its ranks can be compared",
            hint="There is a record of one rank only, and it cannot tell waiting from transfer.",
        )
        whole_us = profile.overlap.groupby("rank")["total_us"].sum()
        right, spent = (100 * float(of.sum() / whole_us.sum()) for of in (waits_us, spent_us))
        without_last = [*_shares_of_those_who_wait(waits_us, whole_us)]
        steps = recorded_steps(ill)
        own = _other_shares(right, without_last, spent, len(waits_us), steps)
        others = [*_of_other_parts(profile.overlap, right), _of_the_last(waits_us, whole_us)]
        check.amount(
            given,
            Quantity(
                right=right,
                unit="%",
                share=CLOSE_ENOUGH,
                own=(*own, *others),
                known=_on_the_way(waits_us, whole_us, steps),
            ).or_as(_beyond_the_last(profile.overlap), given=given, share=ROUNDED),
            "it is the share of all device time that went into waiting",
            hint="Add up what waiting_ms(ill) says of all ranks for one step, and divide by how "
            "long one step takes all of them together.",
        )


def _beyond_the_last(overlap: Any) -> float:
    """Percent of all time by which exchanges held the ranks longer than the one that came last."""
    inside_us = overlap.pivot(index="rank", columns="step", values="exposed_communication_us")
    return 100 * float((inside_us - inside_us.min()).sum().sum() / overlap["total_us"].sum())


def _shares_of_those_who_wait(waits_us: Any, whole_us: Any) -> Iterator[float]:
    """Percent of the time of each, of all of them, and of all waiting in their time."""
    last = waits_us.idxmin()
    waiting, time = waits_us.drop(last), whole_us.drop(last)
    yield from map(float, 100 * waiting / time)
    yield 100 * float(waiting.sum() / time.sum())
    yield 100 * float(waits_us.sum() / time.sum())


def _of_the_last(waits_us: Any, whole_us: Any) -> Slip:
    last = waits_us.idxmin()
    share = float(100 * waits_us[last] / whole_us[last])
    return share, "That is the rank for which the others wait. How long do all of them wait?"


def _on_the_way(waits_us: Any, whole_us: Any, steps: int) -> dict[str, float]:
    waited_us, spent_us = float(waits_us.sum()) / steps, float(whole_us.sum()) / steps
    return {
        "the milliseconds of all ranks": waited_us / 1e3,
        "the milliseconds of all steps": waited_us / 1e3 * steps,
        "the microseconds of all ranks": waited_us,
        "the milliseconds that a rank waits in the mean": waited_us / 1e3 / len(waits_us),
        "the milliseconds of device time": spent_us / 1e3,
    }


def _of_other_parts(overlap: Any, right: float) -> Iterator[Slip]:
    """Another column for the waiting, or another whole."""
    whole_us = float(overlap["total_us"].sum())
    idle, compute = (100 * float(overlap[f"{n}_us"].sum()) / whole_us for n in ("idle", "compute"))
    yield (
        idle,
        "That is idle time, in no exchange. Who waits for another rank is inside one.",
    )
    yield compute, "That is the share of computing. Which part is waiting?"
    yield (
        100 * right / compute,
        "That is waiting relative to computing. All device time is asked for.",
    )


def _other_shares(
    right: float, without_last: Iterable[float], spent: float, ranks: int, steps: int
) -> tuple[Slip, ...]:
    """Answers that show what was taken for what."""
    return (
        (right / 100, "The digits are those of a fraction; percent are asked for."),
        *(
            (share, "You left the straggler out, or took one rank. All devices are paid for.")
            for share in without_last
        ),
        (spent, "That is the share of all communication. Part of it is the transfer."),
        (spent - right, "That is the transfer. How much of the rest is waiting?"),
        (
            100 * (ranks - 1) / ranks,
            f"{ranks - 1} of {ranks} ranks wait, but not all of the time.",
        ),
        (100 / ranks, f"That is one rank of {ranks}. How long does each wait?"),
        (100 - right, "That is all the rest. Which part is waiting?"),
        (100 - spent, "That is what is no communication. How much of the rest is waiting?"),
        (
            100 * right / (100 - right),
            "That is waiting relative to the work. The whole has the waiting in it.",
        ),
        (100 * right / spent, "That is the share of the communication, not of the device time."),
        (100 - 100 * right / spent, "That is the transfer's share of the communication."),
        (right * ranks, f"You divided by the time of one device; {ranks} are paid for."),
        (right / ranks, "You took the waiting of a mean rank, and the device time of all."),
        (
            right * steps,
            f"The waiting is for all {steps} recorded steps, the time for one of them.",
        ),
        (right / steps, f"The waiting is for one step, the time for all {steps} recorded ones."),
    )
