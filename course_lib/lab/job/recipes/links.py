"""Recipes for `code/measure_links.py`, which measures the links between the devices."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import program
from course_lib.lab.job.recipes.keywords import recipe_maker
from course_lib.lab.job.unfinished import Unfinished
from course_lib.late_names import offering

PROGRAM = "measure_links.py"


@recipe_maker("links")
def recipe(
    name: str, *, nodes: int = 2, gpus_per_node: int = 2, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """Measure messages between all pairs of devices, and all-reduces over all devices. `more` are
    fields of Recipe or flags of the program: `bytes`, `repeat`, `algorithm` …"""
    return program.recipe(name, PROGRAM, nodes=nodes, gpus_per_node=gpus_per_node, **more)


__all__ = ["recipe"]
__dir__ = offering(__all__)
