"""Errors of this room: what was asked, what is allowed, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.mistakes.errors import CourseError


class LabError(CourseError):
    """Whatever the lab refuses or cannot do."""


class RecipeError(LabError, ValueError):
    """A recipe that no cluster could run as it stands."""


class SiteError(LabError, ValueError):
    """A site description with something missing, unknown or contradictory."""


class BudgetError(LabError):
    """The run would cost more device-hours than the workspace may still spend."""


class UnknownRunError(LabError, LookupError):
    """No run of the workspace answers to this name or job id."""


class DeletedRunError(UnknownRunError):
    """A run whose folder is gone, so that nothing of it can be read any more."""


class NotRecordedError(LabError, FileNotFoundError):
    """The run was not asked to record this, or has not yet done so."""


class StillRunningError(LabError, TimeoutError):
    """The run has not ended within the time that the caller was willing to wait."""


class RunFailedError(LabError):
    """A run that ended, but not well; the text ends with its cause and the end of its log."""


class WorkspaceError(LabError):
    """A file of the workspace that cannot be written: full disk, somebody else's, no such disk."""


class SlurmError(LabError):
    """A command of Slurm that failed, in its own words, with what they mean."""

    def __init__(self, command: Sequence[str], exit_code: int | None, said: str, hint: str = ""):
        self.command, self.exit_code, self.said = tuple(command), exit_code, said.strip()
        ended = "did not answer" if exit_code is None else f"exited with {exit_code}"
        lines = [f"{command[0]} {ended}.", f"  asked: {' '.join(command)}"]
        lines += [f"  {line}" for line in self.said.splitlines()[-10:]]
        super().__init__("\n".join(lines + ([f"  → {hint}"] if hint else [])))


def listed(problems: Sequence[str]) -> str:
    """All problems at once, one per line: nobody likes to be told them one by one."""
    return problems[0] if len(problems) == 1 else "\n".join(f"- {text}" for text in problems)
