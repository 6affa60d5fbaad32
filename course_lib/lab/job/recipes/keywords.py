"""Keywords of a recipe: stored in it, checked, and converted to flags of a program."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps
from typing import Any, TypeVar

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipe import DEVICE_MEMORY, Recipe, own_number
from course_lib.lab.workspace import programs_folder
from course_lib.mistakes.names import near
from course_lib.plan.numbers import real
from course_lib.words import _

Function = TypeVar("Function", bound=Callable[..., Any])


def keeps_keywords(made_by: str) -> Callable[[Function], Function]:
    """Store the keywords of a call in its recipe, so that the call can be repeated with changes."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @wraps(function)
        def make(*args: Any, **named: Any) -> Any:
            made = function(*args, **named)
            if not isinstance(made, Recipe):
                return made
            given = dict(signature.bind(*args, **named).arguments)
            given |= given.pop("more", {})
            kept = {name: value for name, value in given.items() if value is not None}
            return replace(made, made_by=made_by, keywords=kept)

        return make  # type: ignore[return-value]

    return decorate


RECIPE_FIELDS = (
    "cpus_per_task", "time_limit_minutes", "launcher", "tee", "monitor", "environment",
    "directives", "note", "before",
)  # fmt: skip


def command_line(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Convert flags to words: `True` gives the flag alone, `None` and `False` give nothing, a list
    or a range gives several words."""
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(flag_of(name))
        if value is not True:
            several = value if isinstance(value, list | tuple | range) else [value]
            words += [_text(item) for item in several]
    return tuple(words)


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def split_keywords(more: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keywords into fields of Recipe and flags of the program, with Python's own numbers."""
    fields = {name: value for name, value in more.items() if name in RECIPE_FIELDS}
    return fields, {name: own_number(more[name]) for name in more if name not in RECIPE_FIELDS}


def memory_limit(device_memory_gib: Any) -> dict[str, str]:
    """Return the variable that sets a program's device memory."""
    if device_memory_gib == 0:
        return {}
    if (real(device_memory_gib) or 0) <= 0:
        raise RecipeError(
            _(
                "device_memory_gib {device_memory_gib!r} is not a number above 0",
                device_memory_gib=device_memory_gib,
            )
        )
    return {DEVICE_MEMORY: str(int(device_memory_gib * 2**30))}


def _text(value: Any) -> str:
    """Convert a value to text. 5e6 becomes 5000000, which a flag for whole numbers also accepts."""
    value = own_number(value)
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
    if problems := problems or _wrong_values(flags):
        raise RecipeError(listed(problems))


def _wrong_values(flags: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each flag that gets a list, or a truth value, and takes none."""
    found = []
    for name, value in flags.items():
        takes = _ranges().get(flag_of(name), "")
        is_switch = value is True or value is False
        if not takes or value is None or (is_switch if takes == "ON" else value is False):
            continue
        kind = _("True or False") if takes == "ON" else _("a single value")
        is_list = isinstance(value, list | tuple | range | set) and takes != "Several"
        if takes == "ON" or is_switch or is_list:
            found.append(_("{name} = {value} is not {kind}", name=name, value=value, kind=kind))
    return found


@cache
def _table(name: str) -> str:
    """Return a table of the program as text, because importing it would import torch."""
    return (programs_folder() / "flags" / name).read_text(encoding="utf-8")


@cache
def _ranges() -> dict[str, str]:
    """Return the name of the range of each flag's values."""
    return dict(re.findall(r'^    \("(--[\w-]+)", (\w+)', _table("tables.py"), re.MULTILINE))


@cache
def known_flags() -> dict[str, list[str]]:
    """Read the flags from the tables of the program: `shared` with Megatron-LM, `ours` alone and
    `older` spellings."""
    shared, _unused, ours = _table("tables.py").partition("\nOURS = [")
    texts = {"shared": shared, "ours": ours, "older": _table("other_names.py")}
    first_of_a_row = re.compile(r'^    \(?"(--[\w-]+)"[,:]', re.MULTILINE)
    return {name: first_of_a_row.findall(text) for name, text in texts.items()}
