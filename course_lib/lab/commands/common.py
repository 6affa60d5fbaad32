"""Shared parts of the subcommands: options, and the recipe of a file or a run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe, read_text
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.lab import Lab
from course_lib.words import N_, _

WHAT = N_(
    "WHAT is one of\n  a file     recipe.toml (each run folder has one), or a batch script\n"
    "  a run      name or job id of a run, to use its recipe again"
)


def parser(name: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"course {name}", description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip


def add_site(options: argparse.ArgumentParser) -> None:
    options.add_argument("--site", help=_("use this preset instead of the workspace's site.toml"))


def recipe_of(what: str, lab: Lab) -> Recipe:
    """Return the recipe of a file or a run; see WHAT."""
    path = Path(what)
    # Unlike Path.is_file, isfile also answers for names that are too long.
    if not os.path.isfile(path):  # noqa: PTH113
        return lab.run(which(what)).recipe
    text = read_text(path, RecipeError)
    if path.suffix == ".toml":
        return Recipe.from_toml(text, str(path))
    recipe = shell.script(path.stem, text)
    if isinstance(recipe, Unfinished):
        raise RecipeError(str(recipe))
    return recipe


def which(word: str) -> str | int:
    """Convert a job id to a number. A longer number can only be a name."""
    return int(word) if word.isdecimal() and len(word) < 20 else word


def count(word: str) -> int:
    """Read a count from an option: a whole number from 1."""
    if not word.isdecimal() or len(word) > 9 or int(word) < 1:
        text = _("{word!r} is not a whole number from 1 to 999,999,999", word=word)
        raise argparse.ArgumentTypeError(text)
    return int(word)
