"""A learner's guesses, recorded before a run and compared with the measurement.

    samples = predict("03: samples after 40 iterations", guess_samples, unit="samples")
    samples.compare(seen)

A notebook offers a field for a missing guess. Only the first guess at a question counts, because a
learner who runs the cell again has seen the answer.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.front_end import interactive
from course_lib.lab.workspace import account, find
from course_lib.mistakes import left_open
from course_lib.mistakes.errors import ArgumentError, CourseError
from course_lib.show.predictions.fields import ask
from course_lib.teach import jsonl
from course_lib.teach.answers import close, in_figures, plain, why_no_number
from course_lib.words import _, label

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(".course") / "guesses.jsonl"
SWITCH = "COURSE_GUESSES"
# Relative error up to which a guess counts as good.
NEARLY = 0.1

Guess = float | str | list[str]


class GuessMissingError(CourseError):
    """Missing guess in the cell above."""


@dataclass(frozen=True)
class Prediction:
    question: str
    # None if the reader continues without guessing.
    guess: Guess | None
    unit: str = ""

    def compare(self, measured: object) -> None:
        """Print the guess beside the measurement, and record both."""
        left_open.refuse_outdated()
        found = _plain(measured)
        if isinstance(found, float) and not math.isfinite(found):
            print(f"{_subject(self.question)}: {_('nothing was measured')}")
            return
        print(f"{_subject(self.question)}: {self._beside(found)}")
        _keep({"question": self.question, "measured": found})

    def _beside(self, found: Guess) -> str:
        said = _as_text(found, self.unit)
        if self.guess is None:
            return _("it was {said} (no guess)", said=said)
        guessed = _(
            "you guessed {guess}, it was {said}", guess=_as_text(self.guess, self.unit), said=said
        )
        verdict = _verdict(self.guess, found)
        return f"{guessed}: {verdict}" if verdict else guessed


def predict(
    question: str,
    guess: object,
    *,
    unit: str = "",
    choices: Sequence[str] | None = None,
    several: bool = False,
) -> Prediction:
    """Record a guess. If none is given, use the first guess that was recorded for this question. If
    none was recorded, a notebook offers a field for it, and an error stops the notebook.

    `question` begins with the lesson's number, as in "03: samples after 40 iterations". With
    `choices`, the guess has to be one of them, or a list of some with `several`.
    """
    if ": " not in question:
        raise ArgumentError(
            _("{question!r} has no number of a lesson; write '03: …'", question=question)
        )
    subject = _subject(question)

    def keep(given: object) -> Guess:
        value = _checked(subject, given, choices)
        _keep({"question": question, "guess": value, "unit": unit})
        return value

    if guess is not None and guess is not ... and getattr(guess, "missing", None) is None:
        return Prediction(question, keep(guess), unit)
    known = _recorded(find().folder / FILE).get(question, {}).get("guess")
    if known is not None or os.environ.get(SWITCH, "") == "skip":
        return Prediction(question, known, unit)
    if interactive():
        ask(unit, choices, several, lambda given: _as_text(keep(given), unit))
    raise GuessMissingError(
        _(
            "your guess is missing: {subject}.\nWrite it in the cell above in place of the "
            "dots. Run that cell, then this cell. A wrong guess teaches more than none.\n(To "
            "read on without guessing: %env {switch}=skip)",
            subject=subject,
            switch=SWITCH,
        )
    )


def _subject(question: str) -> str:
    return label(question).partition(": ")[2]


def _checked(subject: str, guess: object, choices: Sequence[str] | None) -> Guess:
    value = _plain(guess)
    if choices is None:
        if isinstance(value, str | list) or not math.isfinite(value):
            raise ArgumentError(f"{subject}: {why_no_number(guess)}")
        return value
    given = value if isinstance(value, list) else [value]
    if strange := [one for one in given if one not in choices]:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ArgumentError(
            _(
                "{subject}: {strange!r} is not one of the answers; use {allowed}",
                subject=subject,
                strange=strange[0],
                allowed=allowed,
            )
        )
    return value


def _plain(value: object) -> Guess:
    if isinstance(value, list | tuple | set) and all(isinstance(one, str) for one in value):
        return sorted(value)
    found = plain(value)
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise ArgumentError(why_no_number(value))
    return found


def _as_text(value: Guess, unit: str) -> str:
    if isinstance(value, list):
        return ", ".join(f"'{one}'" for one in value) or _("none of them")
    if isinstance(value, str):
        return f"'{value}'"
    is_long = value == int(value) or abs(value) >= 1000
    figures = in_figures(round(value)) if is_long else f"{value:.3g}"
    return f"{figures}{'' if unit in ('', '%') else ' '}{label(unit)}"


def _verdict(guess: Guess, found: Guess) -> str:
    if not (isinstance(guess, float | int) and isinstance(found, float | int)):
        return _("right") if guess == found else ""
    if close(guess, found, NEARLY):
        return _("well guessed")
    off = times_off(guess, found)
    if math.isnan(off):
        return ""
    times = f"{off:.2g}" if off < 100 else f"{off:,.0f}"
    return (
        _("the guess was {times} times as much", times=times)
        if guess > found
        else _("{times} times as much", times=times)
    )


def times_off(guess: float, measured: float) -> float:
    """Return the factor between guess and measurement, at least 1; NaN if one is not positive."""
    if guess <= 0 or measured <= 0:
        return math.nan
    return max(guess / measured, measured / guess)


def _keep(entry: Mapping[str, Any]) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    line = {"time": now, "learner": account(), **entry}
    jsonl.append(find().folder / FILE, line, _("the guess"))


def kept(workspace: Path | None = None) -> pd.DataFrame:
    """Return the first guess at each question with the next measurement, sorted by lesson.

    `times_off` is empty for a choice, and `is_right` is empty for a number.
    """
    import pandas as pd

    first = _recorded((workspace or find().folder) / FILE)
    rows = [_row(question, made) for question, made in first.items() if "measured" in made]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.sort_values("lesson", kind="stable", ignore_index=True)


def _recorded(path: Path) -> dict[str, dict[str, Any]]:
    return first_guesses(one for one in jsonl.entries(path) if one.get("learner") == account())


def first_guesses(entries: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a learner's first guess at each question, and the first measurement after it."""
    first: dict[str, dict[str, Any]] = {}
    for entry in entries:
        question = str(entry.get("question", ""))
        if "guess" in entry and ": " in question:
            first.setdefault(question, {"guess": entry["guess"], "unit": entry.get("unit", "")})
        elif "measured" in entry and question in first:
            first[question].setdefault("measured", entry["measured"])
    return first


COLUMNS = ["lesson", "question", "guess", "measured", "times_off", "is_right"]


def _row(question: str, made: Mapping[str, Any]) -> list[Any]:
    guess, measured = made["guess"], made["measured"]
    numbers = [value for value in (guess, measured) if isinstance(value, int | float)]
    judged = [times_off(*numbers), None] if len(numbers) == 2 else [math.nan, guess == measured]
    return [question.partition(": ")[0], _subject(question), guess, measured, *judged]
