"""Call every public function and method with every kind of wrong value, by its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from course_lib import bench, challenge, fault, gpt, links, plan, program, shell, show
from course_lib.show import moving

ROOMS = {
    "plan": plan, "show": show, "show.moving": moving, "bench": bench,
    "fault": fault, "gpt": gpt, "links": links, "program": program, "shell": shell,
    "challenge": challenge,
}  # fmt: skip
OF_LAB = ("but", "script", "submit", "run", "open", "elsewhere", "cancel", "clean", "mystery",
          "stacks", "tensorboard", "set_budget")  # fmt: skip
OF_RUN = ("require", "wait", "watch", "tail", "cancel")
WRITES_OR_SERVES = {("lab.tensorboard", "tab", ""), ("lab.set_budget", "device_hours", "")}


class Stranger:
    """An object of a class that the course has never seen."""


def wrong_values(run: Any) -> dict[str, Any]:
    return {
        "None": None, "number": -3, "half": 2.5, "text": "nonsense", "path": "/no/such/file.log",
        "list": [], "nested": [[None]], "dict": {"a": None}, "gap": ..., "function": len,
        "stranger": Stranger(), "table": pd.DataFrame({"a": ["x"]}), "run": run,
        "recipe": run.recipe, "class": dict, "bytes": b"\0",
    }  # fmt: skip


def right_values(run: Any) -> dict[str, Any]:
    """Return values for the other parameters of a call, by their names."""
    layout, cluster = plan.Layout(), plan.cluster("selene", 2)
    estimate = plan.predict(plan.preset("tiny"), layout, cluster)
    return {
        "model": plan.preset("tiny"), "layout": layout, "cluster": cluster, "name": "x",
        "estimate": estimate, "global_batch": 8, "tokens": 1e9, "storage_gb_per_s": 1.0,
        "checkpoint_s": 60.0, "mtbf_s": 3600.0, "nodes": 2, "seed": 3,
        "one": plan.preset("tiny"), "experts": 8, "per_token": 2,
        "stage": 0, "stack": "megatron-core", "times": [1, 2], "devices": 2, "parameters": 1e6,
        "tflops_per_device": 1.0, "runs": [], "recipe": run.recipe, "which": run, "other": run,
        "tag": "box", "site": "slurm", "commands": "true", "text": "#!/bin/sh\n",
        "program": "measure_links.py", "folder": run.folder, "path": run.folder, "of": run.recipe,
        "paths": run.folder, "source": run.log_file,
        "measured": {"a": 1.0}, "predicted": {"a": 1.0},
        "guess": 1.0, "table": pd.DataFrame({"a": [1]}), "matrix": pd.DataFrame([[1.0]]),
        "groups": [[0]], "bars": {"a": {"b": 1.0}}, "results": [],
        "device_hours": 1.0, "tab": "scalars", "run": run, "timeline": run, "memory": run,
        "profile": run, "links": run, "recorded": run, "found": run,
    }  # fmt: skip


def public(lab: Any, run: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for room_name, room in ROOMS.items():
        names = (
            room.__all__ if hasattr(room, "__all__") else ("recipe", "script", "model", "layout")
        )
        for name in names:
            found = getattr(room, name, None)
            if inspect.isfunction(found):
                yield f"{room_name}.{name}", found
    yield from ((f"lab.{name}", getattr(lab, name)) for name in OF_LAB)
    yield from ((f"run.{name}", getattr(run, name)) for name in OF_RUN)
    for made in (plan.Layout, plan.Model, plan.Cluster, plan.Device):
        yield f"plan.{made.__name__}", made
    yield "layout.check", plan.Layout().check


def arguments(function: Callable[..., Any], right: dict[str, Any]) -> dict[str, Any]:
    """Required arguments of the call, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {
        one.name: right.get(one.name)
        for one in parameters
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }


def wrong_calls(
    function: Callable[..., Any], run: Any
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield wrong calls: description, positional arguments and named arguments."""
    right = right_values(run)
    usual = arguments(function, right)
    yield "an unknown argument", (), {**usual, "nonsense_argument": 1}
    yield "too many", tuple(range(40)), {}
    if usual:
        yield "nothing at all", (), {}
    for one in inspect.signature(function).parameters.values():
        for kind, value in wrong_values(run).items():
            if one.kind is one.VAR_POSITIONAL:
                yield f"*{one.name} is a {kind}", (value,), usual
            elif one.kind is not one.VAR_KEYWORD:
                yield f"{one.name} is a {kind}", (), {**usual, one.name: value}
