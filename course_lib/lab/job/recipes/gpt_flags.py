"""What a training run is to do, as flags of Megatron-LM."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError, listed
from course_lib.lab.job.recipe import RUN_FOLDER, own_number
from course_lib.lab.job.run_paths import RunPaths
from course_lib.plan import Layout, Model
from course_lib.plan.numbers import not_whole, whole

IN_THE_RUN = RunPaths(Path(RUN_FOLDER))


def layout_flags(layout: Layout, shape: Model) -> dict[str, Any]:
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


def run_flags(iterations: int, save: bool) -> dict[str, Any]:
    if whole(iterations) is None or iterations < 1:
        raise RecipeError(f"iterations {iterations!r} {not_whole(iterations)}; use 1 or more")
    return {
        "train_iters": iterations,
        "eval_iters": 0,
        "log_interval": 1 if iterations <= 50 else 10,
        "tensorboard_dir": str(IN_THE_RUN.tensorboard),
        "save": str(IN_THE_RUN.checkpoints) if save else None,
    }


def looking_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The steps to record; both kinds of record share one window, as in Megatron-LM."""
    windows = [given[name] for name in ("profile", "memory") if given[name]]
    if not windows:
        return {}
    iterations = given["iterations"]
    default = (max(1, min(10, iterations - 2)), max(2, min(12, iterations)))
    chosen = [
        default if window is True else (own_number(window[0]), own_number(window[1]))
        for window in windows
    ]
    problems = []
    if len(set(chosen)) > 1:
        problems.append(f"profile {chosen[0]} and memory {chosen[1]} must name the same steps")
    first, end = chosen[0]
    if whole(first) is None or whole(end) is None or not 1 <= first < end <= iterations + 1:
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
