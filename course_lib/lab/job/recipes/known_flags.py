"""Which flags our program knows, so that a wrong one is refused before it waits in a queue."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipes.flags import spelt

TABLE = Path(__file__).with_suffix(".toml")


def check_known(flags: Mapping[str, Any], program: str, ours: str) -> None:
    """Of Megatron-LM's own flags there are more than we know: refused for its program are those
    of our program alone."""
    if program != ours:
        given = [spelt(name) for name, value in flags.items() if value not in (None, False)]
        if strange := [flag for flag in given if flag in known_flags()["ours"]]:
            raise RecipeError(
                f"Megatron-LM's program has no {', '.join(strange)}: only {ours} of the course "
                "knows that; leave it out or choose the course's program"
            )
        return
    known = [flag for group in known_flags().values() for flag in group]
    problems = []
    for flag in (flag for flag in map(spelt, flags) if flag not in known):
        near = difflib.get_close_matches(flag, known, n=3)
        ending = f"; nearest: {', '.join(near)}" if near else ""
        problems.append(f"{ours} has no flag {flag}{ending}")
    if problems:
        raise RecipeError(listed(problems))


@cache
def known_flags() -> dict[str, list[str]]:
    """`shared` with Megatron-LM, `older` spellings, and `ours` alone."""
    groups = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: [f"--{flag}" for flag in text.split()] for name, text in groups.items()}
