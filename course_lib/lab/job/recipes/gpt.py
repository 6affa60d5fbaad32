"""Recipes for GPT pretraining: `code/pretrain_gpt.py`, or Megatron-LM's own program.

Both programs take the flags of Megatron-LM. A recipe converts a layout, a model and a few defaults
to flags. Any further flag can be given by its name: `gpt.recipe("a", lr=3e-4,
log_throughput=True)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.program_files import SAMPLE_TEXT
from course_lib.lab.job.recipe import DATA_FOLDER, Recipe
from course_lib.lab.job.recipes import megatron
from course_lib.lab.job.recipes.gpt_flags import (
    FLAG_OF_MODEL,
    layout_flags,
    model_flags,
    recording_flags,
    run_flags,
    trained_model,
)
from course_lib.lab.job.recipes.keywords import (
    RECIPE_FIELDS,
    check_known,
    command_line,
    memory_limit,
    recipe_maker,
    split_keywords,
)
from course_lib.lab.job.unfinished import Unfinished
from course_lib.late_names import offering
from course_lib.mistakes.arguments import explained
from course_lib.plan import Layout, Model, preset
from course_lib.plan.checks import one_of, whole_number
from course_lib.plan.estimate import Estimate
from course_lib.plan.shapes.layout import WHOLE_PRECISIONS
from course_lib.words import _

PROGRAM = "pretrain_gpt.py"
LAYOUT_BY_FLAG = {
    "tensor_model_parallel_size": "tensor", "pipeline_model_parallel_size": "pipeline",
    "context_parallel_size": "context", "num_layers_per_virtual_pipeline_stage": "virtual",
    "pipeline_schedule": "schedule", "use_distributed_optimizer": "zero",
    "use_torch_fsdp2": "zero", "micro_batch_size": "micro_batch",
    "global_batch_size": "global_batch", "fp16": "precision", "bf16": "precision",
    "recompute_granularity": "recompute", "recompute_activations": "recompute",
    "recompute_num_layers": "recompute_layers", "expert_model_parallel_size": "expert",
    "expert_tensor_parallel_size": "expert_tensor",
}  # fmt: skip


@recipe_maker("gpt")
def recipe(
    name: str, *, nodes: int = 1, gpus_per_node: int = 1, model: str | Model = "tiny",
    micro_batch: int = 1, global_batch: int = 0, tensor: int = 1, pipeline: int = 1,
    context: int = 1, virtual: int = 1, schedule: str = "", sequence_parallel: bool = False,
    zero: int = 0, expert: int = 1, expert_tensor: int = 0, precision: str = "fp32",
    recompute: str = "none", recompute_method: str = "uniform", recompute_layers: int = 1,
    iterations: int = 20, profile: bool | tuple[int, int] = False,
    memory: bool | tuple[int, int] = False, device_memory_gib: float = 0, save: bool = False,
    program: str = PROGRAM, **more: Any,
) -> Recipe | Unfinished:  # fmt: skip
    """A training run.

    name                of the job and of its folder under runs/
    nodes               machines
    gpus_per_node       devices of each machine; each has one process
    model               a preset by its name, such as "tiny" or "lab", or a plan.Model
    micro_batch         sequences that a device computes at once
    global_batch        sequences per iteration, over all devices; 0: a micro-batch per data rank
    tensor              devices that share each layer
    pipeline            stages into which the layers are cut
    context             devices that share each sequence
    virtual             stages that each device holds
    schedule            "1f1b", "gpipe", "interleaved" or "zero-bubble"; "" chooses by virtual
    sequence_parallel   True: the tensor ranks share the norms too
    zero                sharded over data ranks: 1 the optimizer, 3 the parameters too (FSDP)
    expert              devices that share the experts of a layer
    expert_tensor       devices that share each expert; 0: as many as tensor
    precision           "fp32", "fp16" or "bf16"
    recompute           "none", "selective" or "full": activations computed again, not kept
    recompute_method    "uniform" or "block": which layers, with recompute="full"
    recompute_layers    layers of one group, with recompute="full"
    iterations          optimizer steps
    profile             record with PyTorch's profiler: True for two steps near the end, or
                        (first, end)
    memory              record every allocation, as profile
    device_memory_gib   GiB that every device seems to have; 0: all
    save                True: write checkpoints into the run folder
    program             the course's program, or the path of Megatron-LM's

    All other keywords are fields of a recipe (time_limit_minutes, monitor, environment,
    directives, note …) or flags of the program by their names (lr, seed, seq_length …)."""
    given = {key: value for key, value in locals().items() if key != "more"}
    of_recipe, flags = split_keywords(more)
    _refuse_layout_flags(flags)
    shape = trained_model(preset(model) if isinstance(model, str) else model, flags)
    spread = _layout(given, shape)
    environment = {**of_recipe.pop("environment", {}), **memory_limit(device_memory_gib)}
    if program != PROGRAM:
        environment = megatron.environment_for(spread, environment)
    return Recipe(
        name=name, program=program, arguments=_arguments(given, shape, spread, flags),
        nodes=nodes, gpus_per_node=gpus_per_node, model=shape, layout=spread,
        environment=environment, **of_recipe,
    )  # fmt: skip


def _arguments(
    given: Mapping[str, Any], shape: Model, spread: Layout, own: Mapping[str, Any]
) -> tuple[str, ...]:  # fmt: skip
    """Return model, layout and defaults as flags. Flags given by name override them."""
    flags = model_flags(shape) | layout_flags(spread, shape)
    flags |= run_flags(given["iterations"], given["save"]) | recording_flags(given)
    flags |= own
    flags |= _data_flags(flags, shape, given["program"])
    if given["program"] != PROGRAM:
        flags = megatron.flags_for(flags, spread, shape.vocabulary)
    else:
        check_known(flags, [*given, *RECIPE_FIELDS], FLAG_OF_MODEL)
    return command_line(flags)


def of_estimate(name: str, estimate: Estimate, program: str) -> Recipe:
    """Return the recipe of a planned run for Megatron-LM's program, with generated data."""
    shape, spread, machine = estimate.model, estimate.layout, estimate.cluster
    flags = model_flags(shape) | layout_flags(spread, shape) | megatron.planned_flags(spread, shape)
    flags |= run_flags(100, save=False) | {
        "mock_data": True, "lr": 3e-4, "tensorboard_dir": None,
    }  # fmt: skip
    per_node = min(spread.devices, machine.devices_per_node)
    return Recipe(
        name=name,
        program=program,
        arguments=command_line(megatron.flags_for(flags, spread, shape.vocabulary)),
        nodes=-(-spread.devices // per_node),
        gpus_per_node=per_node,
        model=shape,
        layout=spread,
        environment=megatron.environment_for(spread, {}),
    )


@explained("gpt.model")
def model(of: str | Recipe = "tiny") -> Model:
    """Return the model of a preset or of a recipe, for use with the planner."""
    if isinstance(of, str):
        return preset(of)
    found: Model = _kept(of, "model")
    return found.but(name=of.name)


@explained("gpt.layout")
def layout(of: Recipe) -> Layout:
    """Return the layout of a recipe, for use with the planner."""
    found: Layout = _kept(of, "layout")
    return found


def _kept(recipe: Recipe, what: str) -> Any:
    if found := getattr(recipe, what):
        return found
    raise RecipeError(
        _(
            "the recipe {name} has no {what}. Make it again with gpt.recipe(…), "
            "and run it again with submit(…, again=True)",
            name=recipe.name,
            what=what,
        )
    )


def _refuse_layout_flags(flags: Mapping[str, Any]) -> None:
    """Refuse a flag that would contradict the recipe's layout."""
    for flag in flags:
        if keyword := LAYOUT_BY_FLAG.get(flag):
            raise RecipeError(
                _(
                    "{flag} belongs to the layout; give it as {keyword}=…, so that the course "
                    "checks the layout",
                    flag=flag,
                    keyword=keyword,
                )
            )


def _layout(given: Mapping[str, Any], shape: Model) -> Layout:
    for name in ("nodes", "gpus_per_node", "tensor", "pipeline", "context"):
        whole_number(name, given[name])
    devices = given["nodes"] * given["gpus_per_node"]
    data = devices // (given["tensor"] * given["pipeline"] * given["context"])
    if given["zero"] == 2:
        raise RecipeError(_("the program does not support zero 2; use 0, 1 or 3"))
    if given["zero"] == 3 and given["pipeline"] > 1:
        raise RecipeError(
            _(
                "zero 3 gathers every layer for each micro-batch, which is slow in a "
                "pipeline of {given} stages. Use zero 1 or pipeline 1",
                given=given["pipeline"],
            )
        )
    one_of("precision", given["precision"], WHOLE_PRECISIONS)  # the program has no others
    own = {entry.name: given[entry.name] for entry in fields(Layout) if entry.name in given}
    found = Layout(data=max(data, 1), **own)
    found.check(shape, devices)
    return found


def _data_flags(flags: Mapping[str, Any], shape: Model, program: str) -> dict[str, Any]:
    """Return flags for the sample text, unless the recipe names other data. Megatron-LM also needs
    the vocabulary's files; our program finds them beside the text."""
    found: dict[str, Any] = {}
    if shape.vocabulary != preset("tiny").vocabulary:
        found["vocab_size"] = shape.vocabulary
    if flags.get("mock_data") or flags.get("data_path"):
        return found
    found["data_path"] = SAMPLE_TEXT
    if program != PROGRAM:
        found["vocab_file"] = f"{DATA_FOLDER}/vocab.json"
        found["merge_file"] = f"{DATA_FOLDER}/merges.txt"
    return found


__all__ = ["layout", "model", "recipe"]
__dir__ = offering(__all__)
