"""Checks of lesson 16b, surviving failures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from course_lib.teach.answers import close, number_in
from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

# Work, interval, save, start and lives, in seconds; each case adds a way to lose time.
CASES: dict[str, tuple[int, int, int, int, list[int]]] = {
    N_("no failure"): (100, 40, 5, 13, [300]),
    N_("a failure while the job works"): (100, 40, 5, 13, [80, 300]),
    N_("a failure while the job saves"): (100, 40, 5, 13, [56, 300]),
    N_("a failure during the start"): (100, 40, 5, 13, [4, 56, 300]),
}
# Mistakes in a simulator, each with its hint.
MISTAKES = (
    (
        "free saves",
        N_("You count no time for saves. Each save takes save_s, and no work is done meanwhile."),
    ),
    ("one start", N_("You count time for the first start only. Each start takes start_s.")),
    ("free start", N_("You count no time for starts. Each start takes start_s, even the first.")),
    (
        "full piece",
        N_("Your last piece of work is too long. Only work_s minus the saved work is left."),
    ),
    ("last save", N_("The last piece of work must be saved too.")),
    ("nothing lost", N_("You keep work that was not saved. After a failure, repeat it.")),
    (
        "lost time",
        N_("You leave out the time since the last save. It passed, although its work is lost."),
    ),
    ("in time", N_("You count a piece as saved although its save failed. The piece is lost.")),
    ("work alone", N_("You count a life from the end of its start. A life begins with the start.")),
    (
        "from zero",
        N_("You lose saved work after a failure. The next start continues from the last save."),
    ),
    ("last life", N_("You count no time for the earlier lives. All of them have passed.")),
    ("since the beginning", N_("Each life counts from its own start, not from the first start.")),
)
LIVES = 2000
# Points of kept work by which an interval may be worse than the best one. Saves are long enough
# that a search over two or three intervals misses it, and one over twenty does not.
CLOSE_ENOUGH = 0.8


ex16b_resume = tried("16b.1", "resume")


def ex16b_interval(simulator: Any, search: Any) -> None:
    """Check a simulator of failures, and the best interval that is found with it."""
    with Checklist("16b.2") as check:
        is_function(check, simulator, "time_needed")
        is_function(check, search, "best_interval")
        for name, case in CASES.items():
            _simulates(check, simulator, _(name), case)
        draw = check.drawn()
        work, lives = draw.randint(3000, 5000), [draw.randint(1, 900) for _life in range(60)]
        drawn = (work, draw.randint(90, 200), draw.randint(9, 20), draw.randint(20, 60), lives)
        _simulates(check, simulator, _("lives that are drawn for you"), drawn)
        _simulates(check, simulator, _("lives that are too short"), (100, 40, 5, 13, [57] * 20))
        save_s, start_s, mean_s = draw.randint(100, 200), draw.randint(100, 300), draw.randint(4, 6)
        steady = [draw.expovariate(1 / (1000 * mean_s)) for _life in range(LIVES)]
        _is_best(check, search, _("nodes that fail at random"), save_s, start_s, steady)
        means = [start_s if draw.random() < 0.85 else 8000 * mean_s for _life in range(LIVES)]
        early = [draw.expovariate(1 / mean) for mean in means]
        _is_best(check, search, _("starts that often fail early"), save_s, start_s, early)


def _simulates(check: Checklist, simulator: Any, name: str, case: tuple[Any, ...]) -> None:
    work_s, interval_s, save_s, start_s, lives = case
    needed = partial(_needed_s, work_s, interval_s, save_s, start_s, lives)
    found = returned(
        check, simulator, float, work_s=work_s, interval_s=interval_s, save_s=save_s,
        start_s=start_s, lives=list(lives),
    )  # fmt: skip
    right = needed()
    hints = [_(hint) for mistake, hint in MISTAKES if _same(found, needed(mistake))]
    if right == inf:
        hints = [_("Here the work is never finished. If no life is left, return math.inf.")]
    check.that(
        _same(found, right),
        _("the time that is needed: {name}", name=name),
        hint=_(
            "work_s={work}, interval_s={interval}, save_s={save}, start_s={start}, lives={lives}: "
            "{right:g} s are needed, and your function returns {found:g}. {hint}",
            work=work_s, interval=interval_s, save=save_s, start=start_s, lives=_first(lives),
            right=right, found=found,
            hint=hints[0] if hints else _("A life is a start and then pieces, each with a save. A "
                                          "piece counts whole or not at all."),
        ),
    )  # fmt: skip


def _same(one: float, other: float) -> bool:
    return one == other or (isfinite(other) and close(one, other, 1e-9))


def _first(lives: Sequence[int]) -> str:
    return f"[{', '.join(map(str, lives[:5]))}{', …' * (len(lives) > 5)}]"


def _needed_s(
    work_s: float, interval_s: float, save_s: float, start_s: float, lives: Sequence[float],
    mistake: str = "",
) -> float:  # fmt: skip
    """Return the seconds until all work is saved, with a mistake of learners."""
    passed = done = 0.0
    for drawn in lives:
        life = drawn - passed * (mistake == "since the beginning")
        life += start_s * (mistake == "work alone")
        is_free = mistake == "free start" or (mistake == "one start" and passed)
        left = life - start_s * (not is_free)
        done *= mistake != "from zero"
        while left >= 0:
            piece = interval_s if mistake == "full piece" else min(interval_s, work_s - done)
            is_last = done + piece >= work_s
            is_unsaved = mistake == "free saves" or (mistake == "last save" and is_last)
            took = piece + save_s * (not is_unsaved)
            if left < (piece if mistake == "in time" else took):
                break
            left -= took
            done += piece
            if done >= work_s:
                return passed + life - left
        done += left if mistake == "nothing lost" and left > 0 else 0
        passed += (life - left * (mistake == "lost time")) * (mistake != "last life")
    return inf


def _is_best(
    check: Checklist, search: Any, name: str, save_s: int, start_s: int, drawn: list[float]
) -> None:
    lives = [1 + round(life) for life in drawn]
    mean_s = sum(lives) / len(lives)
    work_s, young_s = sum(lives) // 2, sqrt(2 * save_s * mean_s)
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
    slips = (
        (young_s, _(
            "That is Young's formula with the mean life. The formula assumes failures at any time "
            "with equal probability. Here most lives are short, and the few long lives do most of "
            "the work."
        )),
        (sqrt(2 * (save_s + start_s) * mean_s), _(
            "You added the start to the save. Every failure costs one start, whatever the interval "
            "is, so the start does not change the best interval."
        )),
        (young_s / sqrt(2), _("That is the square root of C M, but Young's formula has 2 C M.")),
    )  # fmt: skip
    side = (
        _("The interval is too long, so you lose too much to repeated work.")
        if found > best_s
        else _("The interval is too short, so you lose too much to saving.")
    )
    said = next((hint for seconds, hint in slips if close(found, seconds, 0.01)), side)
    check.that(
        kept(found) >= kept(best_s) - CLOSE_ENOUGH,
        requirement,
        hint=_(
            "An interval of {found:.0f} s keeps {kept:.1f} % of the time, and an interval of "
            "{best:.0f} s keeps {most:.1f} %. {said} Try about twenty intervals, and return the "
            "interval with the smallest time_needed.",
            found=found, kept=kept(found), best=best_s, most=kept(best_s), said=said,
        ),
    )  # fmt: skip
