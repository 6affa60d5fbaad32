"""The frame of an exercise's check: requirements in order, one hint, progress kept.

    with Checklist("00.2") as check:
        check.that(run.recipe.nodes == 2, "the run used 2 nodes", hint="…")

Each requirement is printed as met or not; the first that is not met prints its hint, and those
after it are not looked at, since they rest on it. An unmet one raises `NotYet`, so that the cell
fails in a run without people, and a person sees the list instead of a traceback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from course_lib.lab.recipe import Recipe
from course_lib.lab.workspace import find
from course_lib.teach.progress import record

MET, UNMET, NOT_LOOKED_AT = "✓", "✗", "·"


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
        self.lines.append(f"{MET if is_met else UNMET} {requirement}")
        if not is_met:
            self.unmet = requirement
            self.lines += [f"  {line}" for line in hint.splitlines()]
            raise _Stop

    def answered(self, answer: object, what: str) -> None:
        """The learner has replaced the `...` of a gap."""
        self.that(
            answer is not ...,
            f"{what} is filled in",
            hint=f"Replace the ... in the cell above by {what}, run it, then run this check again.",
        )

    def number(self, answer: object, what: str) -> float:
        """A filled gap that holds a number."""
        self.answered(answer, what)
        is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
        self.that(is_number, f"{what} is a number", hint=f"It is {answer!r} now.")
        return float(answer)  # type: ignore[arg-type]

    def succeeded(self, run: Any, what: str = "the run") -> None:
        """A run that was submitted, is over, and went well; else says which of these it is not."""
        self.answered(run, what)
        is_run = hasattr(run, "state") and hasattr(run, "recipe")
        self.that(is_run, f"{what} was submitted", hint=_not_a_run(run))
        self.that(
            run.ended,
            f"{what} is over",
            hint=f"It is {run.state} now. Wait for it with run.wait() or run.watch().",
        )
        self.that(run.ok, f"{what} ended well", hint=run.error)

    def __enter__(self) -> Checklist:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if kind is not None and kind is not _Stop:
            return False
        passed = not self.unmet
        record(self.workspace, self.exercise, passed=passed, unmet=self.unmet)
        report = "\n".join([f"exercise {self.exercise}", *self.lines])
        if not passed:
            raise NotYet(report) from None
        print(report)
        return True


def _not_a_run(given: object) -> str:
    if isinstance(given, Recipe):
        return (
            f"This is the recipe {given.name!r}: it says what to run, and nothing has run yet. "
            "Submit it with lab.submit(…) and give the check what that returns."
        )
    return (
        f"This is {type(given).__name__}, not a run: give the check what lab.submit(…) returned."
        + _unfinished(given)
    )


def _unfinished(run: object) -> str:
    missing = getattr(run, "missing", ())
    return f" Still to fill in: {', '.join(missing)}." if missing else ""
