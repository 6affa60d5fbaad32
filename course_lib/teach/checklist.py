"""The frame of an exercise's check: requirements in order, one hint, progress kept.

    with Checklist("00.2") as check:
        check.that(run.recipe.nodes == 2, "the run used 2 nodes", hint="…")

Each requirement is printed as met or not; the first that is not met prints its hint, and those
after it are not looked at, since they rest on it. A mistake that only some make is named with
`check.unless(given == 2**33, …)`, which prints nothing for the others; `check.amount(…)` looks for
the mistakes that a number shows by itself. An unmet requirement raises
`NotYet`, so that the cell fails in a run without people, and a person sees the list instead of a
traceback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.workspace import find
from course_lib.mistakes.errors import CourseError
from course_lib.teach.answers import (
    in_figures,
    in_short,
    number_written,
    text_in,
    what_it_is,
    why_no_number,
)
from course_lib.teach.progress import record
from course_lib.teach.slips import Quantity
from course_lib.words import told

MET, UNMET = "✓", "✗"
LONGEST_TEXT = 2000
"""Characters of an answer; the rules that read it take long over more."""
UNREAD = (
    "Is that what the cell above made, unchanged? Run that cell once more; if the check says the "
    "same, it is a mistake of the course, and worth a report."
)


class NotYet(AssertionError):
    """The exercise is not solved yet; the text is the list of its requirements."""

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

    def that(self, is_met: bool, requirement: str, *, hint: str) -> None:
        """States a requirement; ends the check at the first that is not met."""
        if not is_met:
            self.refuse(requirement, hint)
        self.lines.append(f"{MET} {told(requirement)}")

    def unless(self, is_wrong: bool, requirement: str, *, hint: str) -> None:
        """Names a mistake where it was made; where it was not, there is nothing to say."""
        if is_wrong:
            self.refuse(requirement, hint)

    def refuse(self, requirement: str, hint: str) -> NoReturn:
        """Ends the check with what is not met."""
        self.unmet = requirement
        lines = told(hint).splitlines()
        self.lines += [f"{UNMET} {told(requirement)}", *(f"  {line}" for line in lines)]
        raise _Stop

    def answered(self, answer: object, variable: str) -> None:
        """The learner has replaced the `...` of a gap."""
        self.unless(
            answer is ...,
            f"{variable} is filled in",
            hint=f"Replace the ... in the cell above ({variable}), run the cell, then run this "
            "check again.",
        )

    def number(self, answer: object, variable: str) -> float:
        """A filled gap that holds a number, in whatever form a notebook's arithmetic gave it."""
        self.answered(answer, variable)
        found = number_written(answer)
        if found is None:
            self.refuse(f"{variable} is a number", why_no_number(answer))
        return found

    def count(self, answer: object, variable: str, of: str) -> float:
        """A gap that holds how many there are of something, which is no unit."""
        given = self.number(answer, variable)
        wanted = Quantity(right=given, unit=of)
        return self._in_unit_of(wanted, given, f"{variable} is a number")

    def _in_unit_of(self, wanted: Quantity, given: float, requirement: str) -> float:
        meant = wanted.in_its_unit(given)
        if meant is None:
            self.refuse(requirement, _another_unit(given, wanted.unit))
        return meant

    def text(self, answer: object, variable: str) -> str:
        """A filled gap that holds one text, also as the only one of a list or a table."""
        self.answered(answer, variable)
        found = text_in(answer)
        if found is None:
            self.refuse(f"{variable} is a text", what_it_is(answer, "one name in quotation marks"))
        self.unless(
            len(found) > LONGEST_TEXT,
            f"{variable} is a text",
            hint=f"It has {len(found):,} characters. A sentence is enough.",
        )
        return found

    def amount(self, given: float, wanted: Quantity, requirement: str, *, hint: str) -> None:
        """The number is right; if it is not, the slip that explains it is told, else the hint."""
        meant = self._in_unit_of(wanted, given, requirement)
        if digits := wanted.right_but_for_the_unit(given):
            self.refuse(requirement, digits)
        given = meant
        self.no_slip(given, wanted, requirement)
        unit = f" {wanted.unit}" if wanted.unit else ""
        if not wanted.is_met_by(given):
            said = [f"You answered {in_figures(given)}{unit}. {hint}", wanted.at_last(given)]
            self.refuse(requirement, "\n".join(said).strip())
        self.that(True, requirement, hint="")

    def no_slip(self, given: float, wanted: Quantity, requirement: str) -> None:
        """The number is right, or at least none of the slips explains it."""
        said = "" if wanted.is_met_by(given) else wanted.explain(given)
        self.unless(bool(said), requirement, hint=said)

    def ended(self, run: Any, what: str = "the run") -> None:
        """A run that was submitted and is over, well or not."""
        self.answered(run, what)
        self.unless(
            getattr(run, "deleted", False),
            f"{what} is still there",
            hint="This run was deleted; the last cell of a lesson cleans up. Run the cell above "
            "that submits it again, then this check.",
        )
        is_run = hasattr(run, "state") and hasattr(run, "recipe")
        self.unless(not is_run, f"{what} was submitted", hint=_not_a_run(run))
        self.that(
            run.ended,
            f"{what} is over",
            hint=f"It is {run.state} now. Wait for it with run.wait() or run.watch().",
        )

    def succeeded(self, run: Any, what: str = "the run") -> None:
        """A run that was submitted, is over, and went well; else says which of these it is not."""
        self.ended(run, what)
        self.that(run.ok, f"{what} ended well", hint=run.error)

    def trained(self, run: Any, what: str = "the run") -> None:
        """A run that succeeded in training a model, and not one of another kind."""
        self.succeeded(run, what)
        self.unless(
            not self.left(run, "log", what).last_iteration,
            f"{what} trained a model",
            hint=f"This is {run.name} (job {run.job_id}), which started something else: its log "
            "has no iteration line. Is it the run that the exercise asks for?",
        )

    def started(self, run: Any, program: str, what: str = "the run") -> None:
        """A run of this program of the course that succeeded."""
        self.succeeded(run, what)
        self.unless(
            not run.recipe.program.endswith(program),
            f"{what} started {program}",
            hint=f"This is the run {run.name!r}, which started something else. Is it the run that "
            "the exercise asks for?",
        )

    def left(self, run: Any, part: str, what: str = "the run", *, how: str = "") -> Any:
        """What a run left behind under this name: its log, links, profile or memory."""
        try:
            return getattr(run, part)
        except FileNotFoundError as error:
            where = f"There is no {part} in {run.folder}. "
            again = f"{error}. If it was deleted, submit the run under another name."
            self.refuse(f"{what} left its {part}", where + (how or again))

    def _unread(self, error: Exception) -> list[str]:
        """For what no check has foreseen. It is no try, so nothing of it is kept."""
        hint = f"{type(error).__name__}: {in_short(str(error))}. {UNREAD}"
        said = str(error) if isinstance(error, CourseError) else hint
        unmet = f"{UNMET} {told('what was handed in can be read')}"
        return [told(f"exercise {self.exercise}"), *self.lines, unmet, f"  {told(said)}"]

    def __enter__(self) -> Checklist:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception) and kind is not _Stop:
            raise NotYet(_printable("\n".join(self._unread(error)))) from error
        if kind is not None and kind is not _Stop:
            return False
        passed = not self.unmet
        record(self.workspace, self.exercise, passed=passed, unmet=self.unmet)
        report = _printable("\n".join([told(f"exercise {self.exercise}"), *self.lines]))
        if not passed:
            raise NotYet(report) from None
        print(report)
        return True


def _printable(report: str) -> str:
    """Half of a character, which a text of Python may hold, is none to a notebook."""
    return report.encode("utf-8", "replace").decode()


def _another_unit(given: object, wanted: str) -> str:
    written = getattr(given, "unit", "")
    if not wanted:
        return f"You wrote {written}, and a plain number is asked for, without a unit."
    return f"You wrote {written}, which is a unit of something else; {wanted} are asked for."


def _not_a_run(given: object) -> str:
    if isinstance(given, Recipe):
        return (
            f"This is the recipe {given.name!r}: it says what to run, and nothing has run yet. "
            "Submit it with lab.submit(…) and give the check what that returns."
        )
    missing = getattr(given, "missing", ())
    gaps = f" Still to fill in: {', '.join(missing)}." if missing else ""
    return (
        f"This is {type(given).__name__}, not a run: give the check what lab.submit(…) returned."
        + gaps
    )
