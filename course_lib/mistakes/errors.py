"""Errors whose text is all that a learner needs; a notebook shows it below the learner's line."""

from __future__ import annotations


class CourseError(Exception):
    """Whatever the course refuses, in words. The steps inside the course that led there are not
    shown, but for those who ask with `%tb`."""


class ArgumentError(CourseError, TypeError, ValueError):
    """A call with a value of the wrong kind, one too many or one too few."""


class NoSuchNameError(CourseError, AttributeError):
    """Nothing of this name is there; the text says what is."""


class NoSuchEntryError(CourseError, KeyError):
    """Nothing is there under this key; the text says which keys there are."""

    __str__ = Exception.__str__  # a KeyError would put quotes around its sentence


class NoSuchFileError(CourseError, FileNotFoundError):
    """No file, or none of the wanted kind, where one was looked for."""
