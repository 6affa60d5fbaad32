"""What `gpt.recipe?` says of every parameter: written once, and held by a test."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.plan.shapes.layout import PRECISIONS, RECOMPUTE, RECOMPUTE_METHODS, SCHEDULES
from course_lib.plan.shapes.presets import PRESETS

WIDTH = 98


@dataclass(frozen=True)
class Parameter:
    """`allowed` lists all values, or says in words which ones."""

    meaning: str
    allowed: str | tuple[Any, ...] = "1 or more"


PARAMETERS: dict[str, Parameter] = {
    "name": Parameter("of the job and of its folder under runs/", "a text without spaces"),
    "nodes": Parameter("machines"),
    "gpus_per_node": Parameter("devices of each machine; each has one process"),
    "model": Parameter(
        "a preset by its name, or a plan.Model",
        tuple(name for name, shape in PRESETS.items() if shape.causal),
    ),
    "micro_batch": Parameter("sequences that a device computes at once"),
    "global_batch": Parameter(
        "sequences per iteration, over all devices; 0: one micro-batch per data rank",
        "a multiple of micro_batch × data ranks",
    ),
    "tensor": Parameter("devices that share each layer"),
    "pipeline": Parameter("stages into which the layers are cut"),
    "context": Parameter("devices that share each sequence"),
    "virtual": Parameter("stages that each device holds"),
    "schedule": Parameter('order of the micro-batches; "" chooses by virtual', ("", *SCHEDULES)),
    "sequence_parallel": Parameter("norms are shared by the tensor ranks too", (False, True)),
    "zero": Parameter("sharded over data ranks: 1 optimizer, 3 parameters too (FSDP)", (0, 1, 3)),
    "precision": Parameter("numbers in which the model computes", PRECISIONS),
    "recompute": Parameter("activations computed again instead of kept", RECOMPUTE),
    "recompute_method": Parameter('which layers, with recompute="full"', RECOMPUTE_METHODS),
    "recompute_layers": Parameter('layers of one group, with recompute="full"'),
    "iterations": Parameter("optimizer steps"),
    "profile": Parameter(
        "record with PyTorch's profiler: True for two steps near the end, or (first, end)",
        "True, False or two steps",
    ),
    "memory": Parameter("record every allocation, as profile", "True, False or two steps"),
    "device_memory_gib": Parameter("GiB that every device seems to have; 0: all", "0 or more"),
    "save": Parameter("write checkpoints into the run folder", (False, True)),
    "program": Parameter("the course's program, or the path of Megatron-LM's", "a file"),
}


def documented(function: Callable[..., Any], fields: Sequence[str], flags: Sequence[str]) -> str:
    """The docstring of the function, with a line for each parameter and the names of the rest."""
    lines = [inspect.getdoc(function) or "", "", "Parameters (default; allowed):"]
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in PARAMETERS:
            continue
        default = "" if parameter.default is parameter.empty else f"{parameter.default!r}; "
        lines.append(f"  {name} ({default}{_allowed(PARAMETERS[name].allowed)})")
        lines.append(f"      {PARAMETERS[name].meaning}")
    lines += ["", "Also fields of a recipe:", *_wrapped(fields)]
    further = [flag for flag in flags if flag not in PARAMETERS]
    lines += ["", "Also flags of the program, by their names:", *_wrapped(further)]
    return "\n".join(lines)


def _allowed(allowed: str | tuple[Any, ...]) -> str:
    return allowed if isinstance(allowed, str) else ", ".join(map(repr, allowed))


def _wrapped(names: Sequence[str]) -> list[str]:
    text = ", ".join(names)
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
