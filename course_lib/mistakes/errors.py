"""Errors whose message is enough for a learner. A notebook shows it below the learner's line."""

from __future__ import annotations


class CourseError(Exception):
    """Error with a message of the course. Its inner traceback is shown only by `%tb`."""


class ArgumentError(CourseError, TypeError, ValueError):
    """Call with a value of the wrong type, or with too many or too few arguments."""


class NoSuchNameError(CourseError, AttributeError):
    """Unknown name. The message lists the known names."""


class NoSuchFileError(CourseError, FileNotFoundError):
    """Missing file, or no file of the wanted kind."""
