"""Python values to a command line, the same for every program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import DEVICE_MEMORY, own_number
from course_lib.plan.numbers import real

RECIPE_FIELDS = (
    "cpus_per_task", "time_limit_minutes", "launcher", "tee", "monitor", "environment",
    "directives", "note", "before",
)  # fmt: skip


def command_line(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """`True` gives the flag alone, `None` and `False` nothing, a list or a range several words."""
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        words.append(spelt(name))
        if value is not True:
            several = value if isinstance(value, list | tuple | range) else [value]
            words += [_text(item) for item in several]
    return tuple(words)


def spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def parted(more: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of Recipe and flags of the program, which are given side by side."""
    fields = {name: value for name, value in more.items() if name in RECIPE_FIELDS}
    return fields, {name: value for name, value in more.items() if name not in RECIPE_FIELDS}


def limited(device_memory_gib: Any) -> dict[str, str]:
    """The variable in which a program finds how much memory its device is to have."""
    if device_memory_gib == 0:
        return {}
    if (real(device_memory_gib) or 0) <= 0:
        raise RecipeError(f"device_memory_gib {device_memory_gib!r} is not a number above 0")
    return {DEVICE_MEMORY: str(int(device_memory_gib * 2**30))}


def _text(value: Any) -> str:
    """5e6 bytes are 5000000, which a flag for whole numbers takes too."""
    value = own_number(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
