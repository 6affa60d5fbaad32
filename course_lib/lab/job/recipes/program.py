"""Recipes for any other program of `code/`, or one of your own, on all devices of some nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from course_lib.lab.job import own_files
from course_lib.lab.job.recipe import Recipe, own_number
from course_lib.lab.job.recipes.flags import command_line, limited, parted
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained

STARTER = "run_own.py"
"""Starts a rank of the learner's own program."""


@explained("program.recipe", takes_gaps=True)
@keeps_keywords("program")
def recipe(
    name: str, program: str | Path, *, nodes: int = 1, gpus_per_node: int = 1,
    device_memory_gib: float = 0, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """One process per device. `program` is a file of `code/`, or a path: "work/my_ring.py" is a
    file of your own in the workspace, which the run takes along. `device_memory_gib` makes every
    device seem that small. `more` are fields of Recipe or flags of the program:
    `program.recipe("a", "accumulate_ddp.py", sync="last")`."""
    given = {"nodes": nodes, "gpus_per_node": gpus_per_node, "device_memory_gib": device_memory_gib}
    if missing := gaps(given | more):
        return Unfinished(name, missing)
    fields, flags = parted(more)
    environment = {**fields.pop("environment", {}), **limited(own_number(device_memory_gib))}
    what: dict[str, Any] = {"program": str(program), "arguments": command_line(flags)}
    if is_own(program):
        what = started(str(program), STARTER, command_line(flags))
    return Recipe(
        name=name, nodes=nodes, gpus_per_node=gpus_per_node, **what,
        environment=environment, **{"time_limit_minutes": 5} | fields,
    )  # fmt: skip


def is_own(program: str | Path) -> bool:
    """A path from the workspace; a whole path runs where it lies, with all that is beside it."""
    return os.sep in str(program) and not Path(program).is_absolute()


def started(file: str, starter: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a recipe in which a program of `code/` takes up a file of the learner's."""
    own = (own_files.in_the_run(file), *arguments)
    return {"program": starter, "arguments": own, "files": (file,)}


__all__ = ["recipe"]
__dir__ = offering(__all__)
