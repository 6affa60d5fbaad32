"""Recipes for GPT pretraining: `code/pretrain_gpt.py`, or Megatron-LM's own program.

Both take the flags of Megatron-LM, so a recipe is a layout, a model and a few habits put into
flags; every further flag can be given by its name: `gpt.recipe("a", lr=3e-4, log_throughput=True)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job import sample_text
from course_lib.lab.job.recipe import DATA_FOLDER, Recipe, own_number
from course_lib.lab.job.recipes import megatron
from course_lib.lab.job.recipes.flags import RECIPE_FIELDS, command_line, limited, parted
from course_lib.lab.job.recipes.gpt_flags import (
    layout_flags,
    looking_flags,
    run_flags,
)
from course_lib.lab.job.recipes.gpt_model import FLAG_OF_MODEL, model_flags, trained
from course_lib.lab.job.recipes.gpt_parameters import documented
from course_lib.lab.job.recipes.keywords import keeps_keywords
from course_lib.lab.job.recipes.known_flags import check_known, known_flags, name_of
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.plan import Layout, Model, preset
from course_lib.plan.numbers import not_whole, whole

PROGRAM = "pretrain_gpt.py"
OF_THE_LAYOUT = (
    "tensor", "pipeline", "context", "virtual", "micro_batch", "global_batch", "zero",
    "sequence_parallel", "recompute", "recompute_method", "recompute_layers", "schedule",
    "precision",
)  # fmt: skip
LAYOUT_BY_FLAG = {
    "tensor_model_parallel_size": "tensor", "pipeline_model_parallel_size": "pipeline",
    "context_parallel_size": "context", "num_layers_per_virtual_pipeline_stage": "virtual",
    "pipeline_schedule": "schedule", "use_distributed_optimizer": "zero",
    "use_torch_fsdp2": "zero", "micro_batch_size": "micro_batch",
    "global_batch_size": "global_batch", "fp16": "precision", "bf16": "precision",
    "recompute_granularity": "recompute", "recompute_activations": "recompute",
    "recompute_num_layers": "recompute_layers",
}  # fmt: skip


@explained("gpt.recipe", takes_gaps=True)
@keeps_keywords("gpt")
def recipe(
    name: str, *, nodes: int = 1, gpus_per_node: int = 1, model: str | Model = "tiny",
    micro_batch: int = 1, global_batch: int = 0, tensor: int = 1, pipeline: int = 1,
    context: int = 1, virtual: int = 1, schedule: str = "", sequence_parallel: bool = False,
    zero: int = 0, precision: str = "fp32", recompute: str = "none",
    recompute_method: str = "uniform", recompute_layers: int = 1, iterations: int = 20,
    profile: bool | tuple[int, int] = False, memory: bool | tuple[int, int] = False,
    device_memory_gib: float = 0, save: bool = False, program: str = PROGRAM, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """A training run. `profile` and `memory` take the first step to record and the first not to;
    True takes two steps near the end. `device_memory_gib` makes every device seem that small.
    `more` are fields of Recipe or flags of the program."""
    given = {key: own_number(value) for key, value in locals().items() if key != "more"}
    if missing := gaps(given | more):
        return Unfinished(name, missing)
    fields, flags = parted(more)
    _refuse_layout_flags(flags)
    shape = trained(preset(model) if isinstance(model, str) else model, flags)
    spread = _layout(given, shape)
    environment = {**fields.pop("environment", {}), **limited(given["device_memory_gib"])}
    if program != PROGRAM:
        environment = megatron.environment_for(spread, environment)
    return Recipe(
        name=name, program=program, arguments=_arguments(given, shape, spread, flags),
        nodes=nodes, gpus_per_node=gpus_per_node, model=shape, layout=spread,
        environment=environment, **fields,
    )  # fmt: skip


OWN_FLAGS = [name_of(flag) for group in ("shared", "ours") for flag in known_flags()[group]]
recipe.__doc__ = documented(
    recipe, RECIPE_FIELDS, [flag for flag in OWN_FLAGS if flag not in LAYOUT_BY_FLAG]
)


def _arguments(
    given: Mapping[str, Any], shape: Model, spread: Layout, own: Mapping[str, Any]
) -> tuple[str, ...]:  # fmt: skip
    """Model, layout and habits as flags, and over them those that were given by name."""
    flags = model_flags(shape) | layout_flags(spread, shape)
    flags |= run_flags(given["iterations"], given["save"]) | looking_flags(given)
    flags |= own
    flags |= _data_flags(flags, shape, given["program"])
    if given["program"] != PROGRAM:
        flags = megatron.flags_for(flags, spread, shape.vocabulary)
    arguments = [*given, *RECIPE_FIELDS]
    check_known(flags, given["program"], PROGRAM, arguments, meant=FLAG_OF_MODEL)
    return command_line(flags)


@explained("gpt.model")
def model(of: str | Recipe = "tiny") -> Model:
    """The model of a preset, or of a recipe, for asking the planner."""
    if isinstance(of, str):
        return preset(of)
    if of.model is None:
        raise _unknown(of, "model")
    return of.model.but(name=of.name)


@explained("gpt.layout")
def layout(of: Recipe) -> Layout:
    """The layout of a recipe, for asking the planner."""
    if of.layout is None:
        raise _unknown(of, "layout")
    return of.layout


def _unknown(recipe: Recipe, what: str) -> RecipeError:
    return RecipeError(
        f"the recipe {recipe.name} does not say its {what}: gpt.recipe(…) made none such, or an "
        "earlier version of the course did; make it anew, submit(…, again=True) runs it once more"
    )


def _refuse_layout_flags(flags: Mapping[str, Any]) -> None:
    """What a recipe says of its layout is what it runs."""
    clashes = [
        f"{flag} belongs to the layout: give it as {LAYOUT_BY_FLAG[flag]}=…, so that the "
        "layout is checked"
        for flag in flags
        if flag in LAYOUT_BY_FLAG
    ]
    if clashes:
        raise RecipeError(listed(clashes))


def _layout(given: Mapping[str, Any], shape: Model) -> Layout:
    sizes = ("tensor", "pipeline", "context")
    wrong = [name for name in ("nodes", "gpus_per_node", *sizes) if (whole(given[name]) or 0) < 1]
    if wrong:
        said = [f"{name} {given[name]!r} {not_whole(given[name])}; use 1 or more" for name in wrong]
        raise RecipeError(listed(said))
    devices = given["nodes"] * given["gpus_per_node"]
    ranks = given["tensor"] * given["pipeline"] * given["context"]
    if devices % ranks:
        product = " × ".join(f"{size} {given[size]}" for size in sizes)
        works = [n for n in range(1, devices + 1) if devices % n == 0]
        raise RecipeError(
            f"{product} = {ranks} does not divide the {devices} devices of {given['nodes']} nodes "
            f"× {given['gpus_per_node']}; use a product of {', '.join(map(str, works))}"
        )
    if given["zero"] == 2:
        raise RecipeError("zero 2 is not among the layouts of the program; use 0, 1 or 3")
    if given["zero"] == 3 and given["pipeline"] > 1:
        raise RecipeError(
            f"zero 3 gathers every layer for each micro-batch, and a pipeline of "
            f"{given['pipeline']} would do so again and again; use zero 1 or pipeline 1"
        )
    try:
        found = Layout(data=devices // ranks, **{name: given[name] for name in OF_THE_LAYOUT})
        found.check(shape, devices)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    return found


def _data_flags(flags: Mapping[str, Any], shape: Model, program: str) -> dict[str, Any]:
    """The sample text, unless the recipe names other data; its vocabulary lies beside it, where
    our program finds it by itself."""
    found: dict[str, Any] = {}
    if shape.vocabulary != preset("tiny").vocabulary:
        found["vocab_size"] = shape.vocabulary
    if flags.get("mock_data") or flags.get("data_path"):
        return found
    found["data_path"] = sample_text.WANTED
    if program != PROGRAM:
        found["vocab_file"] = f"{DATA_FOLDER}/vocab.json"
        found["merge_file"] = f"{DATA_FOLDER}/merges.txt"
    return found


__all__ = ["layout", "model", "recipe"]
__dir__ = offering(__all__)
