"""Functions that make recipes: what they share, and how their keywords become flags."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps
from typing import Any, TypeVar

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipe import DEVICE_MEMORY, storable
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.lab.workspace import programs_folder
from course_lib.mistakes.arguments import explained
from course_lib.mistakes.names import near
from course_lib.plan.checks import PlanError, positive
from course_lib.words import _

Function = TypeVar("Function", bound=Callable[..., Any])


def recipe_maker(
    made_by: str, gaps_in: Callable[[Mapping[str, Any]], tuple[str, ...]] = gaps
) -> Callable[[Function], Function]:
    """Complete the function `recipe` of a module of this folder.

    The function gets Python's own numbers and no gaps: a call with gaps returns an Unfinished. The
    recipe keeps the keywords, so that the call can be repeated with changes.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @wraps(function)
        def make(*args: Any, **named: Any) -> Any:
            given = dict(signature.bind(*args, **named).arguments)
            given |= given.pop("more", {})
            if missing := gaps_in(given):
                return Unfinished(given["name"], missing)
            given = {name: storable(value) for name, value in given.items()}
            try:
                made = function(**given)
            except PlanError as error:
                raise RecipeError(str(error)) from error
            kept = {name: value for name, value in given.items() if value is not None}
            return replace(made, made_by=made_by, keywords=kept)

        return explained(f"{made_by}.recipe", takes_gaps=True)(make)  # type: ignore[return-value]

    return decorate


RECIPE_FIELDS = (
    "cpus_per_task", "time_limit_minutes", "launcher", "tee", "monitor", "environment",
    "directives", "note", "before",
)  # fmt: skip


def command_line(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Convert flags to words: `True` gives the flag alone, `None` and `False` give nothing, a list
    gives several words."""
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(flag_of(name))
        if value is not True:
            several = value if isinstance(value, list | tuple) else [value]
            words += [_text(item) for item in several]
    return tuple(words)


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def split_keywords(more: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keywords into fields of Recipe and flags of the program."""
    fields = {name: value for name, value in more.items() if name in RECIPE_FIELDS}
    return fields, {name: value for name, value in more.items() if name not in RECIPE_FIELDS}


def memory_limit(device_memory_gib: Any) -> dict[str, str]:
    """Return the variable that sets a program's device memory."""
    if device_memory_gib == 0:
        return {}
    positive("device_memory_gib", device_memory_gib)
    return {DEVICE_MEMORY: str(int(device_memory_gib * 2**30))}


def _text(value: Any) -> str:
    """Convert a value to text. 5e6 becomes 5000000, which a flag for whole numbers also accepts."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def check_known(
    flags: Mapping[str, Any], arguments: Sequence[str], meant: Mapping[str, str]
) -> None:
    """Refuse flags that the course's program does not know, before the job waits in a queue.
    `arguments` are the recipe's own keywords, which are suggested before flags. `meant` maps other
    names of a flag to the flag."""
    listed_flags = itertools.chain(*known_flags().values())
    known = [flag.removeprefix("--").replace("-", "_") for flag in listed_flags]
    problems = []
    for name in (name for name in flags if name.replace("-", "_") not in known):
        found = [meant[name]] if name in meant else near(name, arguments) or near(name, known)
        ending = _("; did you mean {found}?", found=" or ".join(found)) if found else ""
        problems.append(
            _(
                "gpt.recipe has no argument {name}, and the program has no flag of "
                "this name{ending}",
                name=name,
                ending=ending,
            )
        )
    if problems:
        raise RecipeError(listed(problems))


@cache
def known_flags() -> dict[str, list[str]]:
    """Read the flags from the tables of the program: `shared` with Megatron-LM, `ours` alone and
    `older` spellings. The tables are read as text, because importing them would import torch."""
    tables, other_names = (
        (programs_folder() / "flags" / name).read_text(encoding="utf-8")
        for name in ("tables.py", "other_names.py")
    )
    shared, _unused, ours = tables.partition("\nOURS = [")
    texts = {"shared": shared, "ours": ours, "older": other_names}
    first_of_a_row = re.compile(r'^    \(?"(--[\w-]+)"[,:]', re.MULTILINE)
    return {name: first_of_a_row.findall(text) for name, text in texts.items()}
