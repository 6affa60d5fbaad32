"""Recipes for jobs of a few shell commands and for whole batch scripts."""

from __future__ import annotations

import re
import shlex
from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.script import Script
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.words import _

SHORT = {"N": "nodes", "t": "time", "G": "gpus"}
GAP_ANYWHERE = re.compile(r"(?<![.\w/])\.\.\.(?![.\w/])|____")
# Shell lines may print three dots. Three dots are a gap only as the value of a flag.
GAP_AS_VALUE = re.compile(r"(?:--[\w-]+[ =]|\b\w+=)\.\.\.(?!\S)|____")


@explained("shell.recipe", takes_gaps=True)
@keeps_keywords("shell")
def recipe(
    name: str, commands: str, *, nodes: int = 1, gpus_per_node: int = 0,
    time_limit_minutes: int = 5, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """Return a job that runs these shell lines unchanged on the first of its nodes."""
    values = {
        "commands": commands, "nodes": nodes, "gpus_per_node": gpus_per_node,
        "time_limit_minutes": time_limit_minutes, **more,
    }  # fmt: skip
    if missing := (*gaps(values), *_gaps_in(commands, GAP_AS_VALUE)):
        return Unfinished(name, missing)
    return Recipe(name=name, **values)


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
    table: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if not line.startswith("#SBATCH"):
            continue
        for part in _options(line):
            name, equals, value = part.partition("=")
            table[name] = value if equals else ""
    return table


def _options(line: str) -> list[str]:
    """Convert `--nodes 2`, `--nodes=2`, `-N 2` and `-N2` to `nodes=2`."""
    try:
        words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
    except ValueError:
        return []
    options: list[str] = []
    for word in words:
        if word.startswith("--"):
            options.append(word[2:])
        elif re.match(r"-[A-Za-z]", word):
            options.append(SHORT.get(word[1], word[1]) + (f"={word[2:]}" if word[2:] else ""))
        elif options and "=" not in options[-1]:
            options[-1] += f"={word}"
    return options


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
