"""Recipes for jobs of a few shell commands and for whole batch scripts."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes.keywords import recipe_maker
from course_lib.lab.job.script import Script
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.words import _

# The options of a script that say how many devices it needs, and for how long.
HEADING = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
for option in ("--gpus-per-node", "--gpus-per-task", "--ntasks-per-node", "--gres"):
    HEADING.add_argument(option, nargs="?")
for letter, option in (("-N", "--nodes"), ("-t", "--time"), ("-G", "--gpus")):
    HEADING.add_argument(letter, option, nargs="?")
GAP_ANYWHERE = re.compile(r"(?<![.\w/])\.\.\.(?![.\w/])|____")
# Shell lines may print three dots. Three dots are a gap only as the value of a flag.
GAP_AS_VALUE = re.compile(r"(?:--[\w-]+[ =]|\b\w+=)\.\.\.(?!\S)|____")


def _gaps(given: Mapping[str, Any]) -> tuple[str, ...]:
    return *gaps(given), *_gaps_in(given["commands"], GAP_AS_VALUE)


@recipe_maker("shell", _gaps)
def recipe(
    name: str, commands: str, *, nodes: int = 1, gpus_per_node: int = 0,
    time_limit_minutes: int = 5, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """Return a job that runs these shell lines unchanged on the first of its nodes."""
    return Recipe(
        name=name, commands=commands, nodes=nodes, gpus_per_node=gpus_per_node,
        time_limit_minutes=time_limit_minutes, **more,
    )  # fmt: skip


@explained("shell.script", takes_gaps=True)
def script(name: str, text: str | Script) -> Recipe | Unfinished:
    """Return a recipe for an unchanged batch script. The lab still sets its log and folder."""
    text = str(text)
    if lines := _gaps_in(text, GAP_ANYWHERE):
        return Unfinished(name, lines)
    asked = directives(text)
    return Recipe(
        name=name,
        script=text,
        nodes=_whole(asked.get("nodes", "1"), 1),
        gpus_per_node=_gpus_per_node(asked),
        time_limit_minutes=_minutes(asked.get("time", "60")),
    )


def directives(text: str) -> dict[str, str]:
    """Read the #SBATCH options by long name, up to the first command, as sbatch does."""
    words: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            with suppress(ValueError):  # a quotation mark without its partner
                words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
    asked, _others = HEADING.parse_known_args(words)
    return {name.replace("_", "-"): value for name, value in vars(asked).items() if value}


def _gaps_in(text: object, gap: re.Pattern[str]) -> tuple[str, ...]:
    """Return the lines of a script that have `...` or `____` instead of a value."""
    lines = text.splitlines() if isinstance(text, str) else []
    return tuple(
        _("line {number}: {strip}", number=number, strip=line.strip())
        for number, line in enumerate(lines, 1)
        if gap.search(line) and not re.match(r"\s*#(?!SBATCH)", line)
    )


def _gpus_per_node(asked: dict[str, str]) -> int:
    tasks = _whole(asked.get("ntasks-per-node", "1"), 1)
    if "gpus-per-node" in asked:
        return _whole(asked["gpus-per-node"].rpartition(":")[2], 0)
    if found := re.search(r"gpu(?::[^:,]+)?:(\d+)", asked.get("gres", "")):
        return int(found[1])
    if "gpus-per-task" in asked:
        return tasks * _whole(asked["gpus-per-task"].rpartition(":")[2], 0)
    total = _whole(asked.get("gpus", "0").rpartition(":")[2], 0)
    return -(-total // _whole(asked.get("nodes", "1"), 1))


def _whole(text: str, otherwise: int) -> int:
    found = re.match(r"\d+", text.strip())
    return int(found[0]) if found else otherwise


def _minutes(text: str) -> int:
    """Read Slurm's time formats: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s. Round up."""
    days, dash, clock = text.strip().rpartition("-")
    parts = [_whole(part, 0) for part in clock.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, minutes, seconds = ((0, *parts, 0)[:3]) if len(parts) < 3 else parts[:3]
    total_s = ((_whole(days, 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return max(1, -(-total_s // 60))


__all__ = ["recipe", "script"]
__dir__ = offering(__all__)
