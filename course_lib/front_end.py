"""The place of output: a notebook of a person, a terminal, or a test that compares text."""

from __future__ import annotations

import os
import sys
from typing import Any


def is_plain() -> bool:
    """Return True with COURSE_PLAIN=1: only last lines are printed, because tests compare text."""
    return os.environ.get("COURSE_PLAIN", "") not in ("", "0")


def shell_here() -> Any:
    """Return IPython's shell, or None. This does not import IPython in other programs."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_notebook() -> bool:
    """Return True in a notebook's kernel."""
    return hasattr(shell_here(), "kernel")


def interactive() -> bool:
    """Return whether a person uses this kernel."""
    return in_notebook() and not is_plain()
