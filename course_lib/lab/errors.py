"""Errors of the lab: each says what was asked, what is allowed and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.mistakes.errors import CourseError
from course_lib.words import _


class LabError(CourseError):
    """An error of the lab: something that it refuses or cannot do."""


class RecipeError(LabError, ValueError):
    """A recipe that no cluster could run unchanged."""


class SiteError(LabError, ValueError):
    """A site description with a missing, unknown or contradictory value."""


class UnknownRunError(LabError, LookupError):
    """Error for a name or job id without a run in the workspace, or whose run was deleted."""


class NotRecordedError(LabError, FileNotFoundError):
    """Error: the run was not asked to record this, or has not recorded it yet."""


class StillRunningError(LabError, TimeoutError):
    """Error: the run has not ended within the caller's time-out."""


class RunFailedError(LabError):
    """A run that failed. The text ends with the cause and the end of the log."""


class WorkspaceError(LabError):
    """Error: a file of the workspace cannot be written (full or missing disk, permissions)."""


class SlurmError(LabError):
    """Error: a command of Slurm failed. The text has its message and an explanation."""

    def __init__(self, command: Sequence[str], exit_code: int | None, said: str, hint: str = ""):
        self.command, self.exit_code, self.said = tuple(command), exit_code, said.strip()
        ended = (
            _("did not answer")
            if exit_code is None
            else _("exited with {exit_code}", exit_code=exit_code)
        )
        lines = [f"{command[0]} {ended}.", _("  asked: {command}", command=" ".join(command))]
        lines += [f"  {line}" for line in self.said.splitlines()[-10:]]
        super().__init__("\n".join(lines + ([f"  → {hint}"] if hint else [])))


def listed(problems: Sequence[str]) -> str:
    """Return all problems at once, one per line, so that they can be solved together."""
    return problems[0] if len(problems) == 1 else "\n".join(f"- {text}" for text in problems)
