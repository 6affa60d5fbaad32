"""Who looks at what is shown while a run goes on: a notebook, a terminal, or a test."""

from __future__ import annotations

import os
import sys


def is_plain() -> bool:
    """Tests compare text, so they ask for last lines alone: COURSE_PLAIN=1."""
    return os.environ.get("COURSE_PLAIN", "") not in ("", "0")


def in_notebook() -> bool:
    """A kernel, not a terminal: decided without importing IPython where nobody has."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
