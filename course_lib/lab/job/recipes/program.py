"""Recipes for any other program of `code/`, or one of your own, on all devices of some nodes."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes.flags import command_line, parted
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained


@explained("program.recipe", takes_gaps=True)
@keeps_keywords("program")
def recipe(
    name: str, program: str, *, nodes: int = 1, gpus_per_node: int = 1, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """One process per device. `program` is a file of `code/` or a path; `more` are fields of
    Recipe or flags of the program: `program.recipe("a", "accumulate_ddp.py", sync="last")`."""
    if missing := gaps({"nodes": nodes, "gpus_per_node": gpus_per_node, **more}):
        return Unfinished(name, missing)
    fields, flags = parted(more)
    return Recipe(
        name=name, program=program, arguments=command_line(flags), nodes=nodes,
        gpus_per_node=gpus_per_node, **{"time_limit_minutes": 5} | fields,
    )  # fmt: skip


__all__ = ["recipe"]
__dir__ = offering(__all__)
