"""Recipes for any other program of `code/`, or one of your own, on all devices of some nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from course_lib.lab.job.program_files import path_in_run
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes.keywords import (
    command_line,
    memory_limit,
    recipe_maker,
    split_keywords,
)
from course_lib.lab.job.unfinished import Unfinished
from course_lib.late_names import offering

# Starts a rank of the learner's own program.
STARTER = "run_own.py"


@recipe_maker("program")
def recipe(
    name: str, program: str | Path, *, nodes: int = 1, gpus_per_node: int = 1,
    device_memory_gib: float = 0, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """Return a run with one process per device. `program` is a file of `code/`, or a path. A path
    such as "work/my_ring.py" is your own file in the workspace, which is copied to the run.
    `device_memory_gib` limits the memory of every device. `more` are fields of Recipe or flags of
    the program: `program.recipe("a", "accumulate_ddp.py", sync="last")`."""
    fields, flags = split_keywords(more)
    environment = {**fields.pop("environment", {}), **memory_limit(device_memory_gib)}
    what: dict[str, Any] = {"program": str(program), "arguments": command_line(flags)}
    if is_own(program):
        what = started(str(program), STARTER, command_line(flags))
    return Recipe(
        name=name, nodes=nodes, gpus_per_node=gpus_per_node, **what,
        environment=environment, **{"time_limit_minutes": 5} | fields,
    )  # fmt: skip


def is_own(program: str | Path) -> bool:
    """Return True for a path relative to the workspace. An absolute path runs where it lies."""
    return os.sep in str(program) and not Path(program).is_absolute()


def started(file: str, starter: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a recipe in which a program of `code/` runs a file of the learner."""
    own = (path_in_run(file), *arguments)
    return {"program": starter, "arguments": own, "files": (file,)}


__all__ = ["recipe"]
__dir__ = offering(__all__)
