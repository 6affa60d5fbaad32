"""The one place where values of recipes and sites become text of a shell script.

The template may print nothing but `Quoted`: a value that did not pass through one of the
functions below stops the rendering instead of reaching a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePath

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import RUN_FOLDER, own_number
from course_lib.plan.numbers import real

PLAIN_DIRECTIVE = re.compile(r"[\w@%+=:,./*|&!\[\]-]+")
RUN_VARIABLE = '"$COURSE_RUN_DIR"'
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class Quoted(str):
    """Text that is safe where the template puts it."""

    __slots__ = ()


def word(value: object) -> Quoted:
    """One word of the shell, whatever it holds."""
    text = str(value)
    if "\0" in text:
        raise RecipeError(f"{text!r} holds a NUL byte, which no program can be given; remove it")
    return Quoted(shlex.quote(text))


def words(values: Iterable[object]) -> Quoted:
    return Quoted(" ".join(word(value) for value in values))


def argument(value: object) -> Quoted:
    """A word in which `{run}` stands for the folder of the run, which is known in the job only."""
    before, run, after = str(value).partition(RUN_FOLDER)
    if not run:
        return word(value)
    return Quoted(f"{word(before) if before else ''}{RUN_VARIABLE}{word(after) if after else ''}")


def arguments(values: Iterable[object]) -> Quoted:
    return Quoted(" ".join(argument(value) for value in values))


def number(value: object) -> Quoted:
    """A number that we computed ourselves; text in its place would be a mistake of ours."""
    own = own_number(value)
    if real(own) is None:
        raise TypeError(f"{value!r} is no number")
    return Quoted(f"{own:g}" if isinstance(own, float) else str(own))


def directive(value: object) -> Quoted:
    """A value in an #SBATCH line. sbatch splits it itself: no shell sees it, so `$` is a letter."""
    text = str(value)
    if CONTROL.search(text):
        raise RecipeError(
            f"{text!r} cannot stand in an #SBATCH line, which ends where the line ends; "
            "remove the line break or control character"
        )
    if PLAIN_DIRECTIVE.fullmatch(text):
        return Quoted(text)
    return Quoted('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')


def comment(value: object) -> Quoted:
    """Text after a `#`: kept on its line."""
    return Quoted(CONTROL.sub(" ", str(value)))


def verbatim(value: str) -> Quoted:
    """Shell lines that the author of a recipe wrote as shell lines."""
    return Quoted(value.rstrip("\n"))


def file_pattern(folder: PurePath | str) -> str:
    """A folder in `--output`: sbatch replaces `%` there, and a `\\` would switch that off."""
    text = str(folder)
    if "\\" in text:
        raise RecipeError(
            f"the workspace {text!r} has a backslash in its name, with which sbatch cannot write "
            "a log file; work in a folder without one"
        )
    return text.replace("%", "%%")


def only_quoted(value: object) -> str:
    """Jinja's `finalize`: sees every value just before it is printed."""
    if isinstance(value, Quoted):
        return value
    raise TypeError(f"the template prints {value!r} without saying how it is to be quoted")
