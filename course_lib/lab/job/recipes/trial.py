"""Recipes that test your own function on real ranks: `code/try_own.py`."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import program
from course_lib.lab.job.recipes.keywords import command_line, recipe_maker, split_keywords
from course_lib.lab.job.unfinished import Unfinished
from course_lib.late_names import offering

PROGRAM = "try_own.py"


@recipe_maker("trial")
def recipe(
    name: str, file: str, exercise: str, *, nodes: int = 2, gpus_per_node: int = 2, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """Run the functions of `file` on 1, 2, 3 and 4 ranks and compare them with the serial model.
    The exercise "edits" instead follows a whole program on all ranks. The check of the exercise
    reads the results. `more` are fields of Recipe."""
    fields, flags = split_keywords(more)
    arguments = command_line({"exercise": exercise} | flags)
    what: dict[str, Any] = program.started(file, PROGRAM, arguments)
    return Recipe(
        name=name, nodes=nodes, gpus_per_node=gpus_per_node, **what,
        **{"time_limit_minutes": 2} | fields,
    )  # fmt: skip


__all__ = ["recipe"]
__dir__ = offering(__all__)
