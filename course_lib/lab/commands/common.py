"""Shared parts of the subcommands: options, and recipes named on a command line."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe, read_text
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.lab import Lab
from course_lib.words import N_, _

WHAT = N_(
    "WHAT is one of\n  a file          recipe.toml (each run folder has one), or a batch script\n"
    "  a run           name or job id of a run, to use its recipe again\n  gpt NAME …      a "
    "training: gpt dp4 nodes=2 gpus_per_node=2 global_batch=8\n  links NAME …    a measurement "
    "of links: links speeds nodes=2\n  shell NAME …    commands: shell hello 'commands=srun "
    "hostname' nodes=2"
)
BUILDERS = ("gpt", "links", "shell")
SHELL_LINES = ("commands", "before")


def parser(name: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"course {name}", description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip


def add_site(options: argparse.ArgumentParser) -> None:
    options.add_argument("--site", help=_("use this preset instead of the workspace's site.toml"))


def recipe_of(words: Sequence[str], lab: Lab) -> Recipe:
    """Return the recipe that the words name; see WHAT."""
    recipe = _build(words) if words[0] in BUILDERS else _find(words, lab)
    if isinstance(recipe, Unfinished):
        raise RecipeError(str(recipe))
    return recipe


def _build(words: Sequence[str]) -> Recipe | Unfinished:
    if len(words) < 2 or "=" in words[1]:
        raise RecipeError(_("the run needs a name: {words} NAME key=value …", words=words[0]))
    pairs = [word.partition("=") for word in words[2:]]
    if wrong := [key for key, equals, _unused in pairs if not equals]:
        raise RecipeError(_("{wrong!r} has no value; use key=value", wrong=wrong[0]))
    make = import_module(f"course_lib.lab.job.recipes.{words[0]}").recipe
    try:
        made: Recipe | Unfinished = make(
            words[1], **{key: _value(key, text) for key, _unused, text in pairs}
        )
    except TypeError as error:
        raise RecipeError(f"{words[0]} {words[1]}: {error}") from error
    return made


def _find(words: Sequence[str], lab: Lab) -> Recipe | Unfinished:
    from course_lib.lab.job.recipes import shell

    if len(words) > 1:
        raise RecipeError(_("{word!r} does not belong here\n{what}", word=words[1], what=_(WHAT)))
    path = Path(words[0])
    # Unlike Path.is_file, isfile also answers for names that are too long.
    if not os.path.isfile(path):  # noqa: PTH113
        return lab.run(which(words[0])).recipe
    text = read_text(path, RecipeError)
    if path.suffix == ".toml":
        return Recipe.from_toml(text, str(path))
    return shell.script(path.stem, text)


def which(word: str) -> str | int:
    """Convert a job id to a number. A longer number can only be a name."""
    return int(word) if word.isdecimal() and len(word) < 20 else word


def count(word: str) -> int:
    """Read a count from an option: a whole number from 1."""
    if not word.isdecimal() or len(word) > 9 or int(word) < 1:
        raise argparse.ArgumentTypeError(_("{word!r} is not a whole number from 1", word=word))
    return int(word)


def _value(key: str, text: str) -> Any:
    """Read numbers, True, False, None and lists in Python's notation. Anything else is text."""
    if key in SHELL_LINES:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return text if isinstance(value, set | dict | bytes | complex) else value
