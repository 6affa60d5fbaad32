"""Recipes for `code/measure_links.py`: how fast the roads between the devices are."""

from __future__ import annotations

from typing import Any

from course_lib.lab.recipe import Recipe
from course_lib.lab.recipes.flags import command_line
from course_lib.lab.recipes.gpt import RECIPE_FIELDS
from course_lib.lab.unfinished import Unfinished, gaps

PROGRAM = "measure_links.py"


def recipe(
    name: str, *, nodes: int = 2, gpus_per_node: int = 2, **more: Any
) -> Recipe | Unfinished:  # fmt: skip
    """Times point-to-point messages and all-reduces between all pairs of devices. `more` are
    fields of Recipe or flags of the program: `bytes`, `repeat`, `algorithm` …"""
    if missing := gaps({"nodes": nodes, "gpus_per_node": gpus_per_node, **more}):
        return Unfinished(name, missing)
    flags = {key: value for key, value in more.items() if key not in RECIPE_FIELDS}
    fields = {key: value for key, value in more.items() if key in RECIPE_FIELDS}
    return Recipe(
        name=name, program=PROGRAM, arguments=command_line(flags), nodes=nodes,
        gpus_per_node=gpus_per_node, **{"time_limit_minutes": 5} | fields,
    )  # fmt: skip
