"""What a recipe may hold: names that name a folder, sizes, and one thing to run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from course_lib.mistakes.kinds import shown
from course_lib.plan.numbers import not_whole, whole

if TYPE_CHECKING:
    from course_lib.lab.job.recipe import Recipe

LAUNCHERS = ("torchrun", "srun")
NAME = re.compile(r"\w[\w.+-]{0,63}")
LONGEST_NAME_BYTES = 192
"""A file may have 255, and the names of run folders and records add up to 40."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIRECTIVE = re.compile(r"[a-z][a-z0-9-]*")
LEAST = {"nodes": 1, "gpus_per_node": 0, "cpus_per_task": 0, "time_limit_minutes": 1}


def problems(recipe: Recipe) -> list[str]:
    return [*_name_problems(recipe), *_size_problems(recipe), *_what_problems(recipe)]


def _name_problems(recipe: Recipe) -> list[str]:
    problems = []
    if not isinstance(recipe.name, str) or not _names_a_folder(recipe.name):
        works = re.sub(r"[^\w.+-]+", "-", str(recipe.name)).strip("-.+")[:64]
        works = works.encode("utf-8", "ignore")[:LONGEST_NAME_BYTES].decode("utf-8", "ignore")
        problems.append(
            f"name {recipe.name!r} would name a job and a folder: use letters, digits, `-`, `_`, "
            f"`.` and `+`, at most 64 (and {LONGEST_NAME_BYTES} bytes), such as "
            f'"{works or "run1"}"'
        )
    for key in recipe.environment:
        if not VARIABLE.fullmatch(key):
            works = re.sub(r"\W", "_", key) or "NAME"
            problems.append(f'environment: {key!r} is no variable name; use "{works}"')
    for key in recipe.directives:
        if not DIRECTIVE.fullmatch(key):
            problems.append(
                f"directives: {key!r} is no long option of sbatch; write it without dashes in "
                'front, such as "constraint"'
            )
    return problems


def _size_problems(recipe: Recipe) -> list[str]:
    problems = []
    for name, low in LEAST.items():
        value = getattr(recipe, name)
        if whole(value) is None or value < low:
            problems.append(f"{name} {shown(value)} {not_whole(value)}; use {low} or more")
    if recipe.launcher not in LAUNCHERS:
        problems.append(
            f"launcher {shown(recipe.launcher)} is unknown; use {' or '.join(LAUNCHERS)}"
        )
    if recipe.program and recipe.gpus_per_node == 0:
        problems.append("gpus_per_node 0 leaves the program no process; use 1 or more")
    return problems


def _what_problems(recipe: Recipe) -> list[str]:
    given = [what for what in ("program", "commands", "script") if getattr(recipe, what)]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        return [f"a recipe has a program, or commands, or a script; this one has {found}"]
    shell = (recipe.commands, recipe.before)
    texts = (recipe.program, *recipe.arguments, *recipe.environment.values(), *shell)
    if any("\0" in text for text in (*texts, recipe.script)):
        return ["a value holds a NUL byte, which no program can be given; remove it"]
    return []


def _names_a_folder(name: str) -> bool:
    """File systems count bytes, of which a letter may have four."""
    if not NAME.fullmatch(name):
        return False
    try:
        return len(name.encode()) <= LONGEST_NAME_BYTES
    except UnicodeEncodeError:  # half a character
        return False
