"""A model as flags of Megatron-LM, and what flags given beside it make of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import own_number
from course_lib.plan import Model

LAB_HABITS = {
    "lr": 6e-5, "min_lr": 6e-6, "lr_decay_style": "cosine", "lr_decay_iters": 800,
    "lr_warmup_fraction": 0.01, "weight_decay": 0.1, "adam_beta1": 0.9, "adam_beta2": 0.95,
    "init_method_std": 0.006, "split": "949,50,1",
}  # fmt: skip
"""How the model of the lab is trained: published with the original lab."""
BY_FLAG = {
    "num_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads",
    "seq_length": "sequence", "vocab_size": "vocabulary", "num_query_groups": "kv_groups",
    "ffn_hidden_size": "ffn",
}  # fmt: skip
FLAG_OF_MODEL = {name: flag for flag, name in BY_FLAG.items()}
"""The planner's words for sizes, which the program calls otherwise."""
POSITIONS = {"learned": "learned_absolute", "rotary": "rope"}
NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}


def model_flags(shape: Model) -> dict[str, Any]:
    """What the program assumes without being told is left out, but for the sizes."""
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
    if shape.name == "lab":
        flags |= LAB_HABITS
    return flags


def trained(shape: Model, flags: Mapping[str, Any]) -> Model:
    """What the program trains when these flags are given beside the shape."""
    if (
        shape.positions not in POSITIONS
        or shape.patches
        or shape.head_size * shape.heads != shape.hidden
    ):
        raise RecipeError(
            f"model {shape.name} is not one that the program trains: it has token embeddings, "
            f"{' or '.join(POSITIONS)} positions, and heads that share the hidden size"
        )
    asked: dict[str, Any] = {
        name: own_number(flags[flag]) for flag, name in BY_FLAG.items() if flag in flags
    }
    asked["tied"] = not flags.get("untie_embeddings_and_output_weights", not shape.tied)
    asked["bias"] = not flags.get("disable_bias_linear", not shape.bias)
    asked["activation"] = "swiglu" if flags.get("swiglu", shape.activation != "gelu") else "gelu"
    asked["positions"] = _chosen(POSITIONS, flags.get("position_embedding_type"), shape.positions)
    asked["norm"] = _chosen(NORMS, flags.get("normalization"), shape.norm)
    try:
        grouped = bool(flags.get("group_query_attention"))
        return replace(shape, **(_that_follow(shape, asked["activation"], grouped) | asked))
    except ValueError as error:
        raise RecipeError(_in_flags(str(error), flags)) from error


def _in_flags(text: str, flags: Mapping[str, Any]) -> str:
    """What the planner says of a size, by the name under which it was given here."""
    for flag, name in BY_FLAG.items():
        if flag in flags:
            text = re.sub(rf"\b{name}\b", flag, text)
    return text


def _that_follow(shape: Model, activation: str, grouped: bool) -> dict[str, Any]:
    """Sizes that follow from others where the shape has none of its own; 0 is "as usual"."""
    follow = {"head_size": 0}
    if shape.kv_groups == shape.heads:
        follow["kv_groups"] = int(grouped)  # the program's default: one group for all heads
    if activation != shape.activation or shape.ffn == 4 * shape.hidden:
        follow["ffn"] = 0
    return follow


def _chosen(words: Mapping[str, str], flag: Any, else_: str) -> str:
    """The planner's word for a flag's value; the program refuses values that it does not know."""
    return next((ours for ours, theirs in words.items() if theirs == flag), else_)
