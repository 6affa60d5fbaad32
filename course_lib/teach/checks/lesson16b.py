"""Checks of lesson 16b, surviving failures."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from course_lib.teach.answers import close, number_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

# Seconds of work, interval, save and start. Each case adds a way to lose time.
JOB = {"work_s": 100, "interval_s": 40, "save_s": 5, "start_s": 13}
LIVES: tuple[tuple[str, list[int], str], ...] = (
    (N_("no failure"), [300], N_(
        "One start, then pieces of interval_s, each with its save. The last piece is only what is "
        "left, and it is saved too."
    )),
    (N_("a failure while the job works"), [80, 300], N_(
        "The whole first life has passed, its start included. The next life needs its own start "
        "and repeats the work since the last save: a piece counts whole or not at all."
    )),
    (N_("a failure while the job saves"), [56, 300],
     N_("If a save fails, its piece is lost, although its time has passed.")),
    (N_("a failure during the start"), [4, 56, 300],
     N_("Each life counts from its own start, and the start is part of the life.")),
    (N_("lives that are too short"), [57] * 20,
     N_("Here the work is never finished. If no life is left, return math.inf.")),
)  # fmt: skip
MANY = 2000
# Points of kept work by which an interval may be worse than the best one. Saves are long enough
# that a search over two or three intervals misses it, and one over twenty does not.
CLOSE_ENOUGH = 0.8


ex16b_resume = tried("16b.1", "resume")


def ex16b_interval(simulator: Any, search: Any) -> None:
    """Check a simulator of failures, and the best interval that is found with it."""
    with Checklist("16b.2") as check:
        is_function(check, simulator, "time_needed")
        is_function(check, search, "best_interval")
        for name, lives, hint in LIVES:
            _simulates(check, simulator, _(name), JOB, lives, _(hint))
        draw = check.drawn()
        job = {
            "work_s": draw.randint(3000, 5000), "interval_s": draw.randint(90, 200),
            "save_s": draw.randint(9, 20), "start_s": draw.randint(20, 60),
        }  # fmt: skip
        lives = [draw.randint(1, 900) for _life in range(60)]
        pieces = _(
            "A life is a start and then pieces, each with a save. It counts from its own start. A "
            "piece counts whole or not at all."
        )
        _simulates(check, simulator, _("lives that are drawn for you"), job, lives, pieces)
        save_s, start_s, mean_s = draw.randint(100, 200), draw.randint(100, 300), draw.randint(4, 6)
        steady = [draw.expovariate(1 / (1000 * mean_s)) for _life in range(MANY)]
        _is_best(check, search, _("nodes that fail at random"), save_s, start_s, steady)
        means = [start_s if draw.random() < 0.85 else 8000 * mean_s for _life in range(MANY)]
        early = [draw.expovariate(1 / mean) for mean in means]
        _is_best(check, search, _("starts that often fail early"), save_s, start_s, early)


def _simulates(
    check: Checklist, simulator: Any, name: str, job: dict[str, int], lives: list[int], hint: str
) -> None:
    found = returned(check, simulator, float, **job, lives=list(lives))
    right = _needed_s(**job, lives=lives)
    asked = ", ".join(f"{key}={value}" for key, value in job.items())
    check.that(
        found == right or (isfinite(right) and close(found, right, 1e-9)),
        _("the time that is needed: {name}", name=name),
        where=_(
            "{asked}, lives={lives}: {right:g} s are needed, and your function returns {found:g}. ",
            asked=asked,
            lives=f"[{', '.join(map(str, lives[:5]))}{', …' * (len(lives) > 5)}]",
            right=right,
            found=found,
        ),
        hint=hint,
    )


def _needed_s(
    work_s: float, interval_s: float, save_s: float, start_s: float, lives: Sequence[float]
) -> float:
    """Return the seconds until all work is saved."""
    passed = done = 0.0
    for life in lives:
        used = start_s
        while (took := min(interval_s, work_s - done) + save_s) <= life - used:
            used += took
            done += took - save_s
            if done >= work_s:
                return passed + used
        passed += life
    return inf


def _is_best(
    check: Checklist, search: Any, name: str, save_s: int, start_s: int, drawn: list[float]
) -> None:
    lives = [1 + round(life) for life in drawn]
    work_s, young_s = sum(lives) // 2, sqrt(2 * save_s * sum(lives) / len(lives))
    found = returned(
        check, search, number_in, work_s=work_s, save_s=save_s, start_s=start_s,
        lives=np.array(lives),
    )  # fmt: skip
    requirement = _("the best interval: {name}", name=name)
    check.unless(
        not (isfinite(found) and found > 0),
        requirement,
        hint=_(
            "Your function returned {found:g}. An interval must be longer than 0 seconds.",
            found=found,
        ),
    )

    def kept(interval_s: float) -> float:
        return 100 * work_s / _needed_s(work_s, interval_s, save_s, start_s, lives)

    best_s = max((young_s * 1.08**power for power in range(-24, 40)), key=kept)
    young = _(
        "That is Young's formula with the mean life. The formula assumes failures at any time with "
        "equal probability. Here most lives are short, and the few long lives do most of the work."
    )
    side = (
        _("That is longer than all of the work. Is it the time, not the interval?")
        if found > work_s else _("The interval is too long, so you lose too much to repeated work.")
        if found > best_s else _("The interval is too short, so you lose too much to saving.")
    )  # fmt: skip
    check.that(
        kept(found) >= kept(best_s) - CLOSE_ENOUGH,
        requirement,
        where=_(
            "An interval of {found:.0f} s keeps {kept:.1f} % of the time, and an interval of "
            "{best:.0f} s keeps {most:.1f} %. ",
            found=found, kept=kept(found), best=best_s, most=kept(best_s),
        ),
        hint=_(
            "{said} Try about twenty intervals, and return the interval with the smallest "
            "time_needed.",
            said=young if close(found, young_s, 0.01) else side,
        ),
    )  # fmt: skip
