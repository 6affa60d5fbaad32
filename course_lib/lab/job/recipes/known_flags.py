"""Which flags our program knows, so that a wrong one is refused before it waits in a queue."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipes.flags import spelt
from course_lib.mistakes.names import near

TABLE = Path(__file__).with_suffix(".toml")


def check_known(
    flags: Mapping[str, Any], program: str, ours: str, arguments: Sequence[str],
    meant: Mapping[str, str],
) -> None:  # fmt: skip
    """`arguments` are the recipe's own, which are meant more often than a flag; `meant` are names
    that others give to what is a flag here. Of Megatron-LM's own flags there are more than we know:
    refused for its program are those of our program alone."""
    if program != ours:
        given = [spelt(name) for name, value in flags.items() if value not in (None, False)]
        if strange := [flag for flag in given if flag in known_flags()["ours"]]:
            raise RecipeError(
                f"Megatron-LM's program has no {', '.join(strange)}: only {ours} of the course "
                "knows that; leave it out or choose the course's program"
            )
        return
    known = [name_of(flag) for group in known_flags().values() for flag in group]
    problems = []
    for name in (name for name in flags if name.replace("-", "_") not in known):
        found = [meant[name]] if name in meant else near(name, arguments) or near(name, known)
        ending = f"; did you mean {' or '.join(found)}?" if found else ""
        problems.append(f"gpt.recipe has no argument {name}, nor has {ours} such a flag{ending}")
    if problems:
        raise RecipeError(listed(problems))


def name_of(flag: str) -> str:
    """As a keyword of a recipe."""
    return flag.removeprefix("--").replace("-", "_")


@cache
def known_flags() -> dict[str, list[str]]:
    """`shared` with Megatron-LM, `older` spellings, and `ours` alone."""
    groups = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: [f"--{flag}" for flag in text.split()] for name, text in groups.items()}
