"""Models from the configuration files of Hugging Face's transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.mistakes.kinds import shown
from course_lib.plan.checks import PlanError, whole_number
from course_lib.plan.shapes.model import Experts, Latent, Model
from course_lib.words import _

# Keys of different families for one size, in the order in which they are looked for.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")
GROUPS = ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "multi_query_group_num")
FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
SEQUENCE = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
PER_TOKEN = (
    *("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k"),
    "experts_per_token",
)
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
EVERY = ("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step")
# Families whose MLP has no gate, with learned positions or none in a table.
PLAIN_MLP = ("gpt2", "gpt_neo", "gpt_neox", "opt", "bloom", "falcon", "gpt_bigcode", "phi", "gptj")
# Families in which every second layer has a window unless the configuration lists layers.
ALTERNATING = ("gemma2", "gpt_oss")
LEARNED = ("gpt2", "gpt_neo", "opt", "gpt_bigcode")
DROPOUT = ("resid_pdrop", "attn_pdrop", "hidden_dropout", "attention_dropout", "dropout")
# Parts that the planner does not count; a model with one of them would be planned wrongly.
UNLIKE_A_DECODER = (
    *("is_encoder_decoder", "type_vocab_size", "linear_num_value_heads", "linear_conv_kernel_dim"),
    *("mamba_d_state", "ssm_cfg", "ssm_state_size", "state_size", "d_state"),
)
KNOWN_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
# Parts of a configuration that some families nest.
NESTED = ("text_config", "attn_config", "ffn_config")
USUAL_SEQUENCE = 4096


def from_hf(config: str | Path | Mapping[str, Any], sequence: int = 0) -> Model:
    """Return the model that a `config.json` describes: its path, its folder, or its content.

    `sequence` is the length of the training sequences; 0 means 4096, or the model's number of
    positions if smaller. Layers for multi-token prediction count if the configuration has them;
    `model.but(mtp_layers=0)` is the model without them."""
    sequence = whole_number("sequence", sequence, 0)
    found, name = _read(config)
    for nested in NESTED:
        if isinstance(inner := found.get(nested), Mapping):
            found = {**found, **inner}
    kind = str(found.get("model_type", ""))
    kinds = found.get("layer_types")
    unlike = [key for key in UNLIKE_A_DECODER if found.get(key)]
    unlike += sorted(set(map(str, kinds)) - KNOWN_LAYERS) if isinstance(kinds, list) else []
    if unlike:
        raise PlanError(
            _(
                "{name} has {unlike}, which the planner does not know; use a decoder with "
                "attention in every layer",
                name=name or kind,
                unlike=", ".join(unlike),
            )
        )
    latent = _latent(found)
    heads, hidden = _need(found, *HEADS), _need(found, *HIDDEN)
    experts = _experts(found, kind)
    wide = _first(found, *FFN) or 4 * hidden
    head_size = _first(found, "head_dim") or hidden // heads
    if latent:
        head_size = _need(found, "qk_nope_head_dim") + latent.rotary_size
    groups = 1 if found.get("multi_query") else _first(found, *GROUPS) or heads
    positions = "learned" if kind in LEARNED else "alibi" if kind == "bloom" else "rotary"
    window, windowed = _window(found, kind)
    return Model(
        name or kind or "hf",
        _need(found, *LAYERS),
        hidden,
        heads,
        sequence or min(USUAL_SEQUENCE, _first(found, *SEQUENCE) or USUAL_SEQUENCE),
        _need(found, "vocab_size"),
        kv_groups=heads if latent else groups,
        ffn=(_first(found, "moe_intermediate_size") or wide) if experts else wide,
        head_size=head_size,
        tied=bool(found.get("tie_word_embeddings", True)),
        positions=positions,
        activation="gelu" if kind in PLAIN_MLP else "swiglu",
        norm="layernorm" if kind in PLAIN_MLP else "rmsnorm",
        bias=kind in PLAIN_MLP and kind != "falcon",
        pad_vocabulary_to=1,
        experts=experts,
        latent=latent,
        window=window,
        windowed=windowed,
        mtp_layers=_first(found, *MTP),
        dropout=any(shares)
        if (shares := [found[key] for key in DROPOUT if key in found])
        else None,
    )


def _read(config: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the configuration and a name for the model."""
    if isinstance(config, Mapping):
        return config, str(config.get("_name_or_path") or "").split("/")[-1]
    if not isinstance(config, (str, Path)):
        raise PlanError(
            _(
                "config = {config} is not a configuration; use the path of a config.json, or its "
                "content as a dict",
                config=shown(config),
            )
        )
    path = Path(config)
    path = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(
            _(
                "{path} cannot be read ({error}); use the path of a config.json",
                path=path,
                error=getattr(error, "strerror", None) or error,
            )
        ) from None
    if not isinstance(content, dict):
        raise PlanError(_("{path} contains no configuration; use a config.json", path=path))
    return content, path.resolve().parent.name


def _first(found: Mapping[str, Any], *names: str) -> int:
    """Return the first of these keys that has a value, or 0."""
    for name in names:
        if found.get(name) is not None:
            return whole_number(name, found[name], 0)
    return 0


def _need(found: Mapping[str, Any], *names: str) -> int:
    value = _first(found, *names)
    if not value:
        raise PlanError(
            _("the configuration has no {name}; give it in the dict", name=_(" or ").join(names))
        )
    return value


def _window(found: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Return the tokens of a sliding window and the number of layers that have one."""
    window, layers = _first(found, "sliding_window"), _need(found, *LAYERS)
    every = _first(found, "sliding_window_pattern") or 2 * (kind in ALTERNATING)
    windowed = layers - layers // every if every else layers
    if isinstance(kinds := found.get("layer_types"), list):
        windowed = min(layers, kinds.count("sliding_attention"))
    if found.get("use_sliding_window") is False or not windowed:
        return 0, 0
    return window, windowed if window else 0


def _experts(found: Mapping[str, Any], kind: str) -> Experts | None:
    count, own = _first(found, *EXPERTS), _first(found, "moe_intermediate_size")
    if not count:
        return None
    # Llama 4 has one shared expert, which its configuration does not mention.
    shared = _first(found, "n_shared_experts") or int(kind.startswith("llama4"))
    if together := _first(found, "shared_expert_intermediate_size"):
        shared = max(1, round(together / (own or _need(found, *FFN))))
    dense, every = _first(found, "first_k_dense_replace"), _first(found, *EVERY) or 1
    wide = _first(found, "intermediate_size_mlp") or (_first(found, *FFN) if own else 0)
    return Experts(
        count,
        _need(found, *PER_TOKEN),
        shared=shared,
        dense_layers=dense,
        dense_ffn=wide if dense or every > 1 else 0,
        every=every,
        groups=_first(found, "n_group") or 1,
        token_groups=_first(found, "topk_group"),
    )


def _latent(found: Mapping[str, Any]) -> Latent | None:
    if not (rank := _first(found, "kv_lora_rank")):
        return None
    return Latent(
        rank,
        _need(found, "qk_rope_head_dim"),
        _need(found, "v_head_dim"),
        query_rank=_first(found, "q_lora_rank"),
    )
