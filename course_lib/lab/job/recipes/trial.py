"""Recipes that try a function of your own on real ranks: `code/try_own.py`."""

from __future__ import annotations

from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import program
from course_lib.lab.job.recipes.flags import command_line, parted
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained

PROGRAM = "try_own.py"
EXERCISES = (
    "ring", "ddp", "buckets", "zero1", "fsdp",
    "column", "row", "tokens", "schedule", "context", "edits",
)  # fmt: skip


@explained("trial.recipe", takes_gaps=True)
@keeps_keywords("trial")
def recipe(
    name: str, file: str, exercise: str, *, nodes: int = 2, gpus_per_node: int = 2, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """Runs what `file` defines on 1, 2, 3 and 4 ranks and compares it with the serial model, or
    ("edits") follows what a whole program does on all ranks; the check of the exercise reads what
    was found. `more` are fields of Recipe."""
    if missing := gaps({"file": file, "exercise": exercise, "nodes": nodes, **more}):
        return Unfinished(name, missing)
    if exercise not in EXERCISES:
        raise RecipeError(f"there is no trial of {exercise!r}; there are: {', '.join(EXERCISES)}")
    fields, flags = parted(more)
    arguments = command_line({"exercise": exercise} | flags)
    what: dict[str, Any] = program.started(file, PROGRAM, arguments)
    return Recipe(
        name=name, nodes=nodes, gpus_per_node=gpus_per_node, **what,
        **{"time_limit_minutes": 2} | fields,
    )  # fmt: skip


__all__ = ["recipe"]
__dir__ = offering(__all__)
