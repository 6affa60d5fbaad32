"""Helper library of the course. The names that notebooks use are listed in `EXPORTS`.

They are resolved on first use (PEP 562). The commands of the box import this package for every
`squeue`, so pandas and matplotlib must not be loaded.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 10 ms to import, a fifth of a whole `squeue`
    from typing import Any

__version__ = "0.1.0"

# Name in a notebook -> its module, or `module:name` if the name is different there.
EXPORTS: dict[str, str] = {
    "Lab": "lab.lab:Lab",
    "bench": "lab.bench",
    "challenge": "teach.challenge",
    "check": "teach.check",
    "claim": "teach.claims:claim",
    "fault": "lab.job.recipes.fault",
    "gpt": "lab.job.recipes.gpt",
    "guesses": "teach.predictions:kept",
    "help_me": "classroom.sharing:help_me",
    "links": "lab.job.recipes.links",
    "plan": "plan",
    "predict": "teach.predictions:predict",
    "program": "lab.job.recipes.program",
    "progress": "teach.progress:show",
    "read": "read",
    "share_progress": "classroom.sharing:share_progress",
    "shell": "lab.job.recipes.shell",
    "show": "show",
    "trial": "lab.job.recipes.trial",
}

__all__ = list(EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in EXPORTS:
        from course_lib.mistakes.names import no_such_name

        no_such_name("course_lib", name, EXPORTS)
    from importlib import import_module

    module_name, _, attribute = EXPORTS[name].partition(":")
    module = import_module(f"course_lib.{module_name}")
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(EXPORTS)


def set_up_shell() -> None:
    """Set up IPython's shell for the course once, in every kernel and in a terminal."""
    from IPython import get_ipython

    from course_lib.mistakes import display

    shell = get_ipython()
    if shell is None or not display.install(shell):
        return
    import os

    if "COURSE_CLASS" in os.environ:
        from course_lib.classroom import sharing

        sharing.install(shell)


if "IPython" in sys.modules:  # other programs show no cells
    set_up_shell()
