"""Conversion of a model, a layout and the settings of a run to flags of Megatron-LM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import RUN_FOLDER
from course_lib.lab.workspace import RunPaths
from course_lib.plan import Layout, Model
from course_lib.plan.checks import whole_number
from course_lib.plan.numbers import whole
from course_lib.words import _

# Training settings of the lab's model, as published with the original lab.
LAB_HABITS = {
    "lr": 6e-5, "min_lr": 6e-6, "lr_decay_style": "cosine", "lr_decay_iters": 800,
    "lr_warmup_fraction": 0.01, "weight_decay": 0.1, "adam_beta1": 0.9, "adam_beta2": 0.95,
    "init_method_std": 0.006, "split": "949,50,1",
}  # fmt: skip
BY_FLAG = {
    "num_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads",
    "seq_length": "sequence", "vocab_size": "vocabulary", "num_query_groups": "kv_groups",
    "ffn_hidden_size": "ffn",
}  # fmt: skip
# The planner's names of sizes, by the program's flags with different names.
FLAG_OF_MODEL = {name: flag for flag, name in BY_FLAG.items()}
# Flags of a mixture, whose sizes depend on each other. Only a model says what they make together.
OF_EXPERTS = (
    "num_experts", "moe_router_topk", "moe_ffn_hidden_size", "moe_layer_freq",
    "moe_shared_expert_intermediate_size",
)  # fmt: skip
# The planner's words by the flags' values. The program itself refuses unknown values.
POSITIONS = {"learned_absolute": "learned", "rope": "rotary"}
NORMS = {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm"}


def model_flags(shape: Model) -> dict[str, Any]:
    """Return the flags for a model. Defaults of the program are omitted, except sizes."""
    gelu, grouped = shape.activation == "gelu", shape.kv_groups != shape.heads
    flags: dict[str, Any] = {
        "num_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "seq_length": shape.sequence,
        "max_position_embeddings": shape.sequence,
        "untie_embeddings_and_output_weights": not shape.tied,
        "ffn_hidden_size": None if gelu and shape.ffn == 4 * shape.hidden else shape.ffn,
        "group_query_attention": grouped,
        "num_query_groups": shape.kv_groups if grouped else None,
        "position_embedding_type": None if shape.positions == "learned" else "rope",
        "normalization": None if shape.norm == "layernorm" else "RMSNorm",
        "swiglu": not gelu,
        "disable_bias_linear": not shape.bias,
    }
    if shape.head_size * shape.heads != shape.hidden and not shape.latent:
        flags["kv_channels"] = shape.head_size
    if shape.name == "lab":
        flags |= LAB_HABITS
    return flags | _expert_flags(shape) | _latent_flags(shape) | _window_flags(shape)


def _expert_flags(shape: Model) -> dict[str, Any]:
    if (experts := shape.experts) is None:
        return {}
    pattern = [int(shape.has_experts(layer)) for layer in range(shape.layers)]
    return {
        "ffn_hidden_size": shape.dense_ffn,
        "num_experts": experts.count,
        "moe_router_topk": experts.per_token,
        "moe_ffn_hidden_size": shape.ffn,
        "moe_shared_expert_intermediate_size": experts.shared * shape.ffn or None,
        "moe_layer_freq": None if all(pattern) else str(pattern).replace(" ", ""),
    }


def _window_flags(shape: Model) -> dict[str, Any]:
    if not shape.window:
        return {}
    full = shape.layers - (shape.windowed or shape.layers)
    skip = {"window_attn_skip_freq": shape.layers // full} if full else {}
    return {"window_size": f"{shape.window - 1},0"} | skip


def _latent_flags(shape: Model) -> dict[str, Any]:
    if (latent := shape.latent) is None:
        return {}
    return {
        "multi_latent_attention": True,
        "q_lora_rank": latent.query_rank or None,
        "kv_lora_rank": latent.kv_rank,
        "qk_head_dim": shape.head_size - latent.rotary_size,
        "qk_pos_emb_head_dim": latent.rotary_size,
        "v_head_dim": latent.value_size,
    }


def trained_model(shape: Model, flags: Mapping[str, Any]) -> Model:
    """Return the model that the program trains with these flags in addition to the shape."""
    if (
        shape.positions not in POSITIONS.values()
        or shape.patches
        or shape.head_size * shape.heads != shape.hidden
    ):
        raise RecipeError(
            _(
                "the program cannot train model {name}. It supports token embeddings, "
                "{positions} positions, and heads that divide the hidden size",
                name=shape.name,
                positions=" or ".join(POSITIONS.values()),
            )
        )
    if given := [flag for flag in OF_EXPERTS if flags.get(flag) is not None]:
        raise RecipeError(
            _(
                "{flag} belongs to the model; give "
                "model=plan.preset(…).but(experts=plan.Experts(…))",
                flag=given[0],
            )
        )
    asked: dict[str, Any] = {name: flags[flag] for flag, name in BY_FLAG.items() if flag in flags}
    asked["tied"] = not flags.get("untie_embeddings_and_output_weights", not shape.tied)
    asked["bias"] = not flags.get("disable_bias_linear", not shape.bias)
    asked["activation"] = "swiglu" if flags.get("swiglu", shape.activation != "gelu") else "gelu"
    asked["positions"] = POSITIONS.get(str(flags.get("position_embedding_type")), shape.positions)
    asked["norm"] = NORMS.get(str(flags.get("normalization")), shape.norm)
    grouped = bool(flags.get("group_query_attention"))
    return replace(shape, **(_derived_sizes(shape, asked["activation"], grouped) | asked))


def _derived_sizes(shape: Model, activation: str, grouped: bool) -> dict[str, Any]:
    """Return sizes that the shape does not set and that follow from other sizes (0: default)."""
    follow = {"head_size": 0}
    if shape.kv_groups == shape.heads:
        follow["kv_groups"] = int(grouped)  # the program's default: one group for all heads
    if activation != shape.activation or shape.ffn == 4 * shape.hidden:
        follow["ffn"] = 0
    return follow


IN_THE_RUN = RunPaths(Path(RUN_FOLDER))


def layout_flags(layout: Layout, shape: Model) -> dict[str, Any]:
    virtual = layout.virtual > 1
    per_stage = shape.layers // (layout.pipeline * layout.virtual)
    unusual = "" if layout.schedule in ("1f1b", "interleaved") else layout.schedule
    full = layout.recompute == "full"
    per_expert = layout.expert_tensor or layout.tensor
    return {
        "expert_model_parallel_size": layout.expert if shape.experts else None,
        "expert_tensor_parallel_size": per_expert if shape.experts else None,
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
    whole_number("iterations", iterations)
    return {
        "train_iters": iterations,
        "eval_iters": 0,
        "log_interval": 1 if iterations <= 50 else 10,
        "tensorboard_dir": str(IN_THE_RUN.tensorboard),
        "save": str(IN_THE_RUN.checkpoints) if save else None,
    }


def recording_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return flags for the steps to record. Both records share one window, as in Megatron-LM."""
    windows = [given[name] for name in ("profile", "memory") if given[name]]
    if not windows:
        return {}
    iterations = given["iterations"]
    default = (max(1, min(10, iterations - 2)), max(2, min(12, iterations)))
    chosen = [default if window is True else window for window in windows]
    if chosen[0] != chosen[-1]:
        raise RecipeError(
            _(
                "profile {chosen} and memory {chosen2} must name the same steps",
                chosen=chosen[0],
                chosen2=chosen[1],
            )
        )
    steps = chosen[0]
    is_pair = len(steps) == 2 and all(whole(step) is not None for step in steps)
    if not is_pair or not 1 <= steps[0] < steps[1] <= iterations + 1:
        raise RecipeError(
            _(
                "a run of {iterations} iterations cannot record steps {steps}; use {default}",
                steps=" to ".join(map(str, steps)),
                iterations=iterations,
                default=default,
            )
        )
    return {
        "profile": bool(given["profile"]),
        "use_pytorch_profiler": bool(given["profile"]),
        "record_memory_history": bool(given["memory"]),
        "profile_step_start": steps[0],
        "profile_step_end": steps[1],
    }
