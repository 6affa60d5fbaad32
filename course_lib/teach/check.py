"""Checks of all lessons under one name: `check.ex00_local(run)`. Each is loaded from its module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.solution import solution, test
from course_lib.words import _

__all__ = ["drawn", "solution", "test"]
NAME = re.compile(r"ex(\d\d[a-z]?)_\w+")


def drawn(exercise: str, **choices: Sequence[float]) -> SimpleNamespace:
    """Return the numbers of an exercise. They differ between learners and stay for each."""
    draw = Checklist(exercise).drawn()
    return SimpleNamespace(**{name: draw.choice(options) for name, options in choices.items()})


def __getattr__(name: str) -> Any:
    found = NAME.fullmatch(name)
    if found:
        try:
            lesson = import_module(f"course_lib.teach.checks.lesson{found[1]}")
        except ModuleNotFoundError:
            raise AttributeError(_("lesson {found} has no checks", found=found[1])) from None
        if hasattr(lesson, name):
            return getattr(lesson, name)
        known = ", ".join(sorted(key for key in vars(lesson) if NAME.fullmatch(key)))
        raise AttributeError(
            _("no check {name}; lesson {found} has {known}", name=name, found=found[1], known=known)
        )
    raise AttributeError(
        _("no check {name!r}; they are called check.ex<lesson>_<exercise>", name=name)
    )


def __dir__() -> list[str]:
    """Return the names of all lessons' checks, for tab completion."""
    folder = Path(__file__).parent / "checks"
    names = sorted(path.stem for path in folder.glob("lesson*.py"))
    modules = [import_module(f"course_lib.teach.checks.{name}") for name in names]
    checks = {name for module in modules for name in vars(module) if NAME.fullmatch(name)}
    return sorted({*checks, *__all__})
