"""Which flags our program knows, so that a wrong one is refused before it waits in a queue."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.workspace import programs_folder


def check_known(flags: Mapping[str, Any], program: str, ours: str) -> None:
    """A flag that the program does not know is refused here, before anything waits in a queue.

    Of Megatron-LM's own flags there are more than we know: refused are those of our program alone.
    """
    if program != ours:
        given = [_spelt(name) for name, value in flags.items() if value not in (None, False)]
        if strange := [flag for flag in given if flag in flags_of_ours()]:
            raise RecipeError(
                f"Megatron-LM's program has no {', '.join(strange)}: only {ours} of the course "
                "knows that; leave it out or choose the course's program"
            )
        return
    known = known_flags()
    wrong = [_spelt(name) for name in flags]
    problems = []
    for flag in (flag for flag in wrong if known and flag not in known):
        near = difflib.get_close_matches(flag, known, n=3)
        ending = f"; nearest: {', '.join(near)}" if near else ""
        problems.append(f"{ours} has no flag {flag}{ending}")
    if problems:
        raise RecipeError(listed(problems))


def _spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def flags_of_ours(folder: Path | None = None) -> set[str]:
    """Those in the table OURS of the program."""
    texts = [path.read_text(encoding="utf-8") for path in _existing(folder, ("arguments.py",))]
    tables = [re.findall(r"^OURS = \[$(.*?)^\]$", text, re.M | re.S) for text in texts]
    return {
        flag
        for found in tables
        for table in found
        for flag in re.findall(r'"(--[a-z][a-z0-9-]+)"', table)
    }


def known_flags(folder: Path | None = None) -> set[str]:
    """Read from the text of the program, which must not be imported here: it needs torch."""
    files = ("arguments.py", "older_flags.py")
    texts = [path.read_text(encoding="utf-8") for path in _existing(folder, files)]
    return {flag for text in texts for flag in re.findall(r'"(--[a-z][a-z0-9-]+)"', text)}


def _existing(folder: Path | None, names: tuple[str, ...]) -> list[Path]:
    paths = [(folder or programs_folder()) / name for name in names]
    return [path for path in paths if path.is_file()]
