"""Mistakes in what was asked: told in one sentence, without a traceback."""

from __future__ import annotations


class AskedError(ValueError):
    """The message says what was asked, what is allowed, and what to do next."""


class LayoutError(AskedError):
    """A layout that does not fit the devices, the model or the batch."""


class DataError(AskedError):
    """Data that is missing, damaged, or too little."""
