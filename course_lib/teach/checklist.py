"""Check of an exercise: requirements in order, one hint, and a record of progress.

    with Checklist("00.2") as check:
        check.that(run.recipe.nodes == 2, "the run used 2 nodes", hint="…")

The check prints each requirement as met or not. The first unmet requirement prints its hint and
ends the check, because later requirements depend on it. `check.unless(given == 2**33, …)` names
a mistake and prints nothing for learners who did not make it. `check.amount(…)` explains a wrong
number. `check.needs(…)` refuses what cannot be judged yet. An unmet requirement raises `NotYet`:
the cell fails in an automatic run, and a person sees the list instead of a traceback.

A hint has three strengths, one for each attempt with the same mistake: where to look, what kind of
mistake it is, and what to do. The first is `where`, the second adds the first sentence of `hint`,
and the third adds the rest. From the third attempt on, the check offers the solution, or says how a
class opens it.
"""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from course_lib.lab.workspace import account, find
from course_lib.mistakes import left_open
from course_lib.mistakes.errors import CourseError
from course_lib.teach import jsonl
from course_lib.teach.answers import (
    Amount,
    in_figures,
    in_short,
    number_written,
    what_it_is,
    why_no_number,
)
from course_lib.teach.progress import FILE, hints_met
from course_lib.teach.solution import answer, why_none
from course_lib.words import N_, _

MET, UNMET = "✓", "✗"
STRENGTHS = 3
# "all" shows the whole hint at the first try.
SETTING = "COURSE_HINTS"
SENTENCE_END = re.compile(r"(?<=[.?!])\s+|\n")
UNREAD = N_(
    "Did something change the result of the cell above? Run that cell once more. If the check "
    "still fails, please report it as an error of the course."
)


class NotYet(AssertionError):
    """Exercise not solved yet; the text is the list of its requirements."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class _Stop(Exception):
    pass


@dataclass
class Checklist:
    exercise: str
    workspace: Path = field(default_factory=lambda: find().folder)
    lines: list[str] = field(default_factory=list)
    unmet: str = ""
    mistake: str = ""
    strength: int = 0

    def that(self, is_met: bool, requirement: str, *, hint: str, where: str = "") -> None:
        """State a requirement; end the check if it is not met."""
        if not is_met:
            self.refuse(requirement, hint, where)
        self.lines.append(f"{MET} {requirement}")

    def equal(self, found: object, wanted: object, what: str, *, hint: str = "") -> None:
        """Require a value of a run or recipe. If it is another value, say which, then the hint."""
        requirement = _("{what}: {wanted}", what=what, wanted=wanted)
        where = _("It is {found}.", found=_("missing") if found is None else found) + " "
        self.that(str(found) == str(wanted), requirement, hint=hint, where=where)

    def unless(self, is_wrong: bool, requirement: str, *, hint: str, where: str = "") -> None:
        """Name a mistake and end the check if it was made; otherwise print nothing."""
        if is_wrong:
            self.refuse(requirement, hint, where)

    def needs(self, is_there: bool, requirement: str, *, hint: str) -> None:
        """Require something to judge. If it is missing, show the whole hint; no attempt counts."""
        if not is_there:
            self.stop(requirement, hint)

    def refuse(self, requirement: str, hint: str, where: str = "", mistake: str = "") -> NoReturn:
        """End the check with an unmet requirement and a hint as strong as this attempt allows.
        `mistake` distinguishes the mistakes that leave the same requirement unmet."""
        met = hints_met(self.workspace, self.exercise)
        self.mistake = mistake or requirement
        self.strength = min(met.count(self.mistake) + 1, STRENGTHS)
        if os.environ.get(SETTING) == "all":
            self.stop(requirement, where + hint)
        said = (where, where + SENTENCE_END.split(hint, maxsplit=1)[0], where + hint)
        self.stop(requirement, said[self.strength - 1].rstrip(" :\n"), self._next(len(met) + 1))

    def _next(self, number: int) -> str:
        if number >= STRENGTHS:
            offer = _('check.solution("{exercise}") shows the solution.', exercise=self.exercise)
            return f"({offer if answer(self.exercise) else why_none(self.exercise)})"
        words = N_("(Try {number}. Each try makes the hint clearer, up to try {last}.)")
        return _(words, number=number, last=STRENGTHS)

    def stop(self, requirement: str, *paragraphs: str) -> NoReturn:
        """End the check with an unmet requirement and its whole hint. No attempt counts."""
        self.unmet = requirement
        lines = [line for one in paragraphs for line in str(one).splitlines()]
        self.lines += [f"{UNMET} {requirement}", *(f"  {line}" for line in lines)]
        raise _Stop

    def drawn(self) -> random.Random:
        """Return a source of numbers that differ between learners and stay the same for each."""
        return random.Random(f"{account()} {self.workspace} {self.exercise}")

    def answered(self, answer: object, variable: str) -> None:
        """Check that the learner has replaced the `...` of a gap."""
        self.needs(
            answer is not ...,
            _("{variable} is filled in", variable=variable),
            hint=_(
                "Replace the ... in the cell above ({variable}), run the cell, then run "
                "this check again.",
                variable=variable,
            ),
        )

    def number(self, answer: object, variable: str) -> float:
        """Read a gap that holds a number of any real type, or a text with one number."""
        self.answered(answer, variable)
        found = number_written(answer)
        if found is None:
            self.stop(_("{variable} is a number", variable=variable), why_no_number(answer))
        return found

    def amount(self, given: float, wanted: Amount, requirement: str, *, hint: str) -> None:
        """Check a number. If it is wrong, name the slip that leads to it, or give the hint."""
        meant, unit = wanted.in_unit(given), _(wanted.unit) if wanted.unit else ""
        if meant is None:
            asked = unit or _("a plain number without a unit")
            written = getattr(given, "unit", "")
            other = _(
                "You wrote {unit}, but the exercise asks for {wanted}.", unit=written, wanted=asked
            )
            self.stop(requirement, other)
        is_met = wanted.is_met_by(meant)
        answered = f"{in_figures(meant)} {unit}".strip()
        first, *more = SENTENCE_END.split(hint, maxsplit=1)
        where = f"{_('You answered {answered}.', answered=answered)} {first} "
        slip = "" if is_met else wanted.slip(meant)
        self.that(is_met, requirement, hint=" ".join(filter(None, [slip, *more])), where=where)

    def ended(self, run: Any, what: str = N_("the run")) -> None:
        """Check that a run was submitted and is over, successful or not."""
        self.answered(run, what)
        self.needs(
            not getattr(run, "deleted", False),
            _("{what} is still there", what=what),
            hint=_(
                "This run was deleted; the last cell of a lesson cleans up. Run the cell "
                "above that submits it again, then this check."
            ),
        )
        is_run = hasattr(run, "state") and hasattr(run, "recipe")
        submit = _(
            "submit the recipe with lab.submit(…) and give the check the run that it returns"
        )
        self.needs(is_run, _("{what} was submitted", what=what), hint=what_it_is(run, submit))
        over = _("{what} has ended", what=what)
        wait = _("It is {state} now. Wait for it with run.wait() or run.watch().", state=run.state)
        self.needs(run.ended, over, hint=wait)
        self.that(True, over, hint="")

    def succeeded(self, run: Any, what: str = N_("the run")) -> None:
        """Check that a run was submitted, is over and succeeded. Name the first unmet condition."""
        self.ended(run, what)
        self.ended_well(run, what)

    def ended_well(self, run: Any, what: str) -> None:
        """Check that a run that is over succeeded."""
        well = _("{what} ended well", what=what)
        self.needs(run.ok, well, hint=run.error)
        self.that(True, well, hint="")

    def trained(self, run: Any, what: str = N_("the run")) -> None:
        """Check that a run succeeded and trained a model."""
        self.succeeded(run, what)
        trained = _("{what} trained a model", what=what)
        self._is_kind(run, bool(self.left(run, "log", what).last_iteration), trained)

    def started(self, run: Any, program: str, what: str = N_("the run")) -> None:
        """Check that a run of this program of the course succeeded."""
        self.succeeded(run, what)
        started = _("{what} started {program}", what=what, program=program)
        self._is_kind(run, run.recipe.program.endswith(program), started)

    def _is_kind(self, run: Any, is_it: bool, requirement: str) -> None:
        hint = _(
            "This is the run {name!r}, which started something else. Is it the run that the "
            "exercise asks for?",
            name=run.name,
        )
        self.needs(is_it, requirement, hint=hint)

    def left(self, run: Any, part: str, what: str = N_("the run"), *, how: str = "") -> Any:
        """Return what a run recorded under this name: its log, links, profile or memory."""
        try:
            return getattr(run, part)
        except FileNotFoundError as error:
            where = _("There is no {part} in {folder}. ", part=part, folder=run.folder)
            again = _("{error}. If it was deleted, submit the run under another name.", error=error)
            self.stop(_("{what} recorded its {part}", what=what, part=part), where + (how or again))

    def _unread(self, error: Exception) -> NotYet:
        """Return the message for an unexpected error. The error does not count as an attempt."""
        hint = f"{type(error).__name__}: {in_short(str(error))}."
        said = str(error) if isinstance(error, CourseError) else f"{hint} {UNREAD}"
        unmet = f"{UNMET} {_('the check can read its argument')}"
        lines = [_("exercise {exercise}", exercise=self.exercise), *self.lines, unmet, f"  {said}"]
        return NotYet("\n".join(lines))

    def __enter__(self) -> Checklist:
        try:
            left_open.refuse_outdated()
        except left_open.OutdatedError as error:
            raise self._unread(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception) and kind is not _Stop:
            raise self._unread(error) from error
        if kind is not None and kind is not _Stop:
            return False
        passed = not self.unmet
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "learner": account(),
            "exercise": self.exercise,
            "passed": passed,
            "unmet": self.unmet,
            "mistake": self.mistake,
            "strength": self.strength,
        }
        jsonl.append(Path(self.workspace) / FILE, entry, "progress")
        report = "\n".join([_("exercise {exercise}", exercise=self.exercise), *self.lines])
        if not passed:
            raise NotYet(report) from None
        print(report)
        return True
