"""Recipes for GPT pretraining: `code/pretrain_gpt.py`, or Megatron-LM's own program.

Both take the flags of Megatron-LM, so a recipe is a layout, a model and a few habits put into
flags; every further flag can be given by its name: `gpt.recipe("a", lr=3e-4, log_throughput=True)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job import sample_text
from course_lib.lab.job.recipe import DATA_FOLDER, DEVICE_MEMORY, Recipe
from course_lib.lab.job.recipes.flags import command_line
from course_lib.lab.job.recipes.known_flags import check_known
from course_lib.lab.job.unfinished import Unfinished, gaps
from course_lib.plan import Layout, Model, preset

PROGRAM = "pretrain_gpt.py"
RECIPE_FIELDS = (
    "cpus_per_task", "time_limit_minutes", "launcher", "tee", "monitor", "environment",
    "directives", "note", "before",
)  # fmt: skip
LAB_HABITS = {
    "lr": 6e-5, "min_lr": 6e-6, "lr_decay_style": "cosine", "lr_decay_iters": 800,
    "lr_warmup_fraction": 0.01, "weight_decay": 0.1, "adam_beta1": 0.9, "adam_beta2": 0.95,
    "init_method_std": 0.006, "split": "949,50,1",
}  # fmt: skip
"""How the model of the lab is trained: published with the original lab."""
MEGATRON_DEFAULTS = {
    "lr": 1e-3, "hidden_dropout": 0, "attention_dropout": 0, "tokenizer_type": "GPT2BPETokenizer",
}  # fmt: skip
"""What our program takes without being told, and Megatron-LM does not."""


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
    given = {key: value for key, value in locals().items() if key not in ("more", "name")}
    if missing := gaps(given | more):
        return Unfinished(name, missing)
    shape = preset(model) if isinstance(model, str) else model
    layout = _layout(given, shape)
    flags = _model_flags(shape) | _layout_flags(layout, shape) | _run_flags(given, iterations)
    flags |= _looking_flags(given, iterations)
    flags |= {key: value for key, value in more.items() if key not in RECIPE_FIELDS}
    flags |= _data_flags(flags, shape, program)
    if program != PROGRAM:
        flags = MEGATRON_DEFAULTS | flags
    check_known(flags, program, ours=PROGRAM)
    fields = {key: value for key, value in more.items() if key in RECIPE_FIELDS}
    if limit := _limit(device_memory_gib):
        fields["environment"] = {**fields.get("environment", {}), **limit}
    return Recipe(
        name=name, program=program, arguments=command_line(flags), nodes=nodes,
        gpus_per_node=gpus_per_node, **fields,
    )  # fmt: skip


def model(name: str | Recipe = "tiny") -> Model:
    """The model of a preset, or of a recipe, for asking the planner."""
    if isinstance(name, str):
        return preset(name)
    flags = name.flags
    return Model(
        name=name.name,
        layers=_int(flags, "--num-layers"),
        hidden=_int(flags, "--hidden-size"),
        heads=_int(flags, "--num-attention-heads"),
        sequence=_int(flags, "--seq-length"),
        vocabulary=_int(flags, "--vocab-size", preset("tiny").vocabulary),
        tied="--untie-embeddings-and-output-weights" not in flags,
    )


def layout(of: Recipe) -> Layout:
    """The layout of a recipe, for asking the planner."""
    flags = of.flags
    tensor = _int(flags, "--tensor-model-parallel-size", 1)
    pipeline = _int(flags, "--pipeline-model-parallel-size", 1)
    context = _int(flags, "--context-parallel-size", 1)
    per_stage = _int(flags, "--num-layers-per-virtual-pipeline-stage", 0)
    layers = _int(flags, "--num-layers")
    precision = next((p for p in ("fp16", "bf16") if f"--{p}" in flags), "fp32")
    zero = 3 if "--use-torch-fsdp2" in flags else int("--use-distributed-optimizer" in flags)
    return Layout(
        data=of.devices // (tensor * pipeline * context),
        tensor=tensor, pipeline=pipeline, context=context,
        virtual=layers // pipeline // per_stage if per_stage else 1,
        micro_batch=_int(flags, "--micro-batch-size", 1),
        global_batch=_int(flags, "--global-batch-size", 0),
        zero=zero, sequence_parallel="--sequence-parallel" in flags,
        recompute=str(flags.get("--recompute-granularity", "none")),
        recompute_method=str(flags.get("--recompute-method", "uniform")),
        recompute_layers=_int(flags, "--recompute-num-layers", 1),
        schedule=str(flags.get("--pipeline-schedule", "")), precision=precision,
    )  # fmt: skip


def _layout(given: Mapping[str, Any], shape: Model) -> Layout:
    sizes = ("tensor", "pipeline", "context")
    wrong = [name for name in ("nodes", "gpus_per_node", *sizes) if not _counts(given[name])]
    if wrong:
        said = [f"{name} {given[name]!r} is not a whole number of at least 1" for name in wrong]
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
    same = (
        "tensor", "pipeline", "context", "virtual", "micro_batch", "global_batch", "zero",
        "sequence_parallel", "recompute", "recompute_method", "recompute_layers", "schedule",
        "precision",
    )  # fmt: skip
    try:
        found = Layout(data=devices // ranks, **{name: given[name] for name in same})
        found.check(shape, devices)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    return found


def _model_flags(shape: Model) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "num_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "seq_length": shape.sequence,
        "max_position_embeddings": shape.sequence,
        "untie_embeddings_and_output_weights": not shape.tied,
    }
    if shape.name == "lab":
        flags |= LAB_HABITS
    return flags


def _layout_flags(layout: Layout, shape: Model) -> dict[str, Any]:
    virtual = layout.virtual > 1
    per_stage = shape.layers // (layout.pipeline * layout.virtual)
    unusual = "" if layout.schedule in ("1f1b", "interleaved") else layout.schedule
    full = layout.recompute == "full"
    return {
        "tensor_model_parallel_size": layout.tensor,
        "pipeline_model_parallel_size": layout.pipeline,
        "context_parallel_size": layout.context if layout.context > 1 else None,
        "sequence_parallel": layout.sequence_parallel,
        "num_layers_per_virtual_pipeline_stage": per_stage if virtual else None,
        "pipeline_schedule": unusual or None,
        "use_distributed_optimizer": layout.zero == 1,
        "use_torch_fsdp2": layout.zero == 3,
        "micro_batch_size": layout.micro_batch,
        "global_batch_size": layout.global_batch,
        "fp16": layout.precision == "fp16",
        "bf16": layout.precision == "bf16",
        "recompute_granularity": None if layout.recompute == "none" else layout.recompute,
        "recompute_method": layout.recompute_method if full else None,
        "recompute_num_layers": layout.recompute_layers if full else None,
    }


def _run_flags(given: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise RecipeError(f"iterations {iterations!r} is not a whole number of at least 1")
    return {
        "train_iters": iterations,
        "eval_iters": 0,
        "log_interval": 1 if iterations <= 50 else 10,
        "tensorboard_dir": "{run}/tensorboard",
        "save": "{run}/checkpoints" if given["save"] else None,
    }


def _limit(device_memory_gib: Any) -> dict[str, str]:
    """The variable in which a program finds how much memory its device is to have."""
    if device_memory_gib == 0:
        return {}
    wrong = isinstance(device_memory_gib, bool) or not isinstance(device_memory_gib, int | float)
    if wrong or not 0 < device_memory_gib < math.inf:
        raise RecipeError(f"device_memory_gib {device_memory_gib!r} is not a number above 0")
    return {DEVICE_MEMORY: str(int(device_memory_gib * 2**30))}


def _data_flags(flags: Mapping[str, Any], shape: Model, program: str) -> dict[str, Any]:
    """The sample text, unless the recipe names other data; its vocabulary lies beside it, where
    our program finds it by itself."""
    found: dict[str, Any] = {}
    if shape.vocabulary != preset("tiny").vocabulary:
        found["vocab_size"] = flags.get("vocab_size", shape.vocabulary)
    if flags.get("mock_data") or flags.get("data_path"):
        return found
    found["data_path"] = sample_text.WANTED
    if program != PROGRAM:
        found["vocab_file"] = f"{DATA_FOLDER}/vocab.json"
        found["merge_file"] = f"{DATA_FOLDER}/merges.txt"
    return found


def _looking_flags(given: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """The steps to record; both kinds of record share one window, as in Megatron-LM."""
    windows = [given[name] for name in ("profile", "memory") if given[name]]
    if not windows:
        return {}
    default = (max(1, min(10, iterations - 2)), max(2, min(12, iterations)))
    chosen = [default if window is True else tuple(window) for window in windows]
    problems = []
    if len(set(chosen)) > 1:
        problems.append(f"profile {chosen[0]} and memory {chosen[1]} must name the same steps")
    first, end = chosen[0]
    if not 1 <= first < end <= iterations + 1:
        problems.append(
            f"steps {first} to {end} cannot be recorded in a run of {iterations} iterations; use "
            f"{default}"
        )
    if problems:
        raise RecipeError(listed(problems))
    return {
        "profile": bool(given["profile"]),
        "use_pytorch_profiler": bool(given["profile"]),
        "record_memory_history": bool(given["memory"]),
        "profile_step_start": first,
        "profile_step_end": end,
    }


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _int(flags: Mapping[str, str | bool], name: str, otherwise: int | None = None) -> int:
    value = flags.get(name, otherwise)
    if value is None or isinstance(value, bool):
        raise RecipeError(f"the recipe gives no {name}, so its model is not known")
    return int(value)
