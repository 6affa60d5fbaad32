"""What the subcommands share: the lab, and recipes named on a command line."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job import value_types
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.lab import Lab

WHAT = """what to run is one of
  a file            recipe.toml (every run folder has one), or a batch script
  a run             its name or its job id: the same recipe again
  gpt NAME …        training: gpt dp4 nodes=2 gpus_per_node=2 micro_batch=2 global_batch=8
  links NAME …      the speed of the links: links roads nodes=2
  shell NAME …      commands: shell hello 'commands=srun hostname' nodes=2"""
BUILDERS = ("gpt", "links", "shell")
SHELL_LINES = ("commands", "before")


def parser(name: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"course {name}", description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip


def add_site(options: argparse.ArgumentParser) -> None:
    options.add_argument("--site", help="a preset, instead of the workspace's site.toml")


def recipe_of(words: Sequence[str], lab: Lab) -> Recipe:
    """The recipe that the words name; see WHAT."""
    recipe = _build(words) if words[0] in BUILDERS else _find(words, lab)
    if isinstance(recipe, Unfinished):
        raise RecipeError(str(recipe))
    return recipe


def _build(words: Sequence[str]) -> Recipe | Unfinished:
    from course_lib.lab.job.recipes import gpt, links, shell

    if len(words) < 2 or "=" in words[1]:
        raise RecipeError(f"{words[0]} needs a name for the run: {words[0]} NAME key=value …")
    builders: dict[str, Callable[..., Recipe | Unfinished]] = {
        "gpt": gpt.recipe,
        "links": links.recipe,
        "shell": shell.recipe,
    }
    pairs = [word.partition("=") for word in words[2:]]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise RecipeError(f"{wrong[0]!r} is not of the form key=value")
    try:
        return builders[words[0]](words[1], **{key: _value(key, text) for key, _, text in pairs})
    except TypeError as error:
        raise RecipeError(f"{words[0]} {words[1]}: {error}") from error


def _find(words: Sequence[str], lab: Lab) -> Recipe | Unfinished:
    from course_lib.lab.job.recipes import shell

    if len(words) > 1:
        raise RecipeError(f"{words[1]!r} after {words[0]!r} is not understood\n{WHAT}")
    path = Path(words[0])
    if not _is_file(path):
        return lab.run(which(words[0])).recipe
    text = value_types.read_text(path, RecipeError)
    if path.suffix == ".toml":
        return Recipe.from_toml(text, str(path))
    return shell.script(path.stem, text)


def _is_file(path: Path) -> bool:
    """A name too long for a file, or one below a folder that is closed to us, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def warn_of_full_disk(lab: Lab) -> None:
    """What is read may then lack its end: logs stop where the disk was full."""
    if said := lab.workspace.full_disk():
        print(f"course: note: {said}", file=sys.stderr)


def which(word: str) -> str | int:
    """Job ids have few digits; what is longer can only be a name."""
    return int(word) if word.isdecimal() and len(word) < 20 else word


def count(word: str) -> int:
    """For options that say how many: a whole number from 1."""
    if not word.isdecimal() or len(word) > 9 or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1")
    return int(word)


def _value(key: str, text: str) -> Any:
    """Numbers, True, False, None and lists as Python writes them; all else is text."""
    if key in SHELL_LINES:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return text if isinstance(value, set | dict | bytes | complex) else value
