"""Quoting of values of recipes and sites for a shell script, all in this module.

The template may print only `Quoted`. A value that did not pass through a function below stops the
rendering and never reaches a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import RUN_FOLDER
from course_lib.words import _

PLAIN_DIRECTIVE = re.compile(r"[\w@%+=:,./*|&!\[\]-]+")
RUN_VARIABLE = '"$COURSE_RUN_DIR"'
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class Quoted(str):
    """Text that is safe at its place in the template."""

    __slots__ = ()


def word(value: object) -> Quoted:
    """Quote a value as one word of the shell."""
    return Quoted(shlex.quote(str(value)))


def words(values: Iterable[object]) -> Quoted:
    return Quoted(" ".join(word(value) for value in values))


def argument(value: object) -> Quoted:
    """Quote a word in which `{run}` stands for the run's folder, which is known only in the job."""
    before, run, after = str(value).partition(RUN_FOLDER)
    if not run:
        return word(value)
    return Quoted(f"{word(before) if before else ''}{RUN_VARIABLE}{word(after) if after else ''}")


def arguments(values: Iterable[object]) -> Quoted:
    return Quoted(" ".join(argument(value) for value in values))


def directive(value: object) -> Quoted:
    """Quote a value of an #SBATCH line. No shell reads this line, so `$` is an ordinary letter."""
    text = str(value)
    if CONTROL.search(text):
        raise RecipeError(
            _(
                "{text!r} cannot be part of an #SBATCH line; remove the line break or "
                "control character",
                text=text,
            )
        )
    if PLAIN_DIRECTIVE.fullmatch(text):
        return Quoted(text)
    return Quoted('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')


def comment(value: object) -> Quoted:
    """Keep the text of a `#` comment on its line."""
    return Quoted(CONTROL.sub(" ", str(value)))


def verbatim(value: str) -> Quoted:
    """Return the shell lines of a recipe's author unchanged."""
    return Quoted(value.rstrip("\n"))


def only_quoted(value: object) -> str:
    """Check every value before the template prints it (Jinja's `finalize`)."""
    if isinstance(value, Quoted):
        return value
    raise TypeError(
        _("the template prints {value!r} without saying how it is to be quoted", value=value)
    )
