"""Exact parameter counts of a model and of one rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from course_lib.plan.checks import PlanError, expect, flag, whole_number
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.stages import (
    expert_layers_of_stages,
    head_rank,
    layers_of_stages,
)
from course_lib.words import _


@dataclass(frozen=True)
class Parameters:
    """Counts by part; `embedding` includes learned positions or the patch projection, `mlp`
    routers and shared experts. `experts` are those to which tokens are routed."""

    embedding: int = 0
    attention: int = 0
    mlp: int = 0
    norms: int = 0
    head: int = 0
    experts: int = 0

    @property
    def total(self) -> int:
        return self.unrouted + self.experts

    @property
    def unrouted(self) -> int:
        """Return all parameters except the routed experts, which other ranks share and copy."""
        return self.embedding + self.attention + self.mlp + self.norms + self.head

    @property
    def layers(self) -> int:
        """Return the parameters of the transformer layers, without the final norm."""
        return self.attention + self.mlp + self.norms + self.experts


def _norm(model: Model) -> int:
    return model.hidden * (2 if model.norm == "layernorm" else 1)


def _mlp(model: Model, ffn: int) -> int:
    hidden, bias = model.hidden, int(model.bias)
    columns = ffn * (2 if model.activation == "swiglu" else 1)
    return (hidden + bias) * columns + ffn * hidden + bias * hidden


@lru_cache(maxsize=4096)
def layer(model: Model, tensor: int = 1) -> Parameters:
    """Count one transformer layer without experts on one tensor rank: norms and the bias of a
    row-parallel matrix are whole on every rank."""
    attention = 0
    for inputs, outputs, split in model.attention_matrices:
        columns = outputs // (tensor if split == "outputs" else 1)
        attention += inputs // (tensor if split == "inputs" else 1) * columns
        attention += columns * int(model.bias)
    ranks = (model.latent.kv_rank + model.latent.query_rank) if model.latent else 0
    return Parameters(
        attention=attention,
        mlp=_mlp(model, model.dense_ffn // tensor),
        norms=2 * _norm(model) + ranks,
    )


def _mtp(model: Model, tensor: int = 1) -> tuple[int, int]:
    """Count what predictions of further tokens have beside their layers: the matrices that join a
    hidden state with the next token's embedding, and three norms each."""
    return model.mtp_layers * 2 * model.hidden**2 // tensor, model.mtp_layers * 3 * _norm(model)


def expert_layer(model: Model, layout: Layout, held: int = 0) -> Parameters:
    """Count one layer with experts on one rank; `held` replaces the rank's number of experts."""
    experts = model.experts
    if experts is None:
        return layer(model, layout.tensor)
    shared = _mlp(model, experts.shared * model.ffn // layout.tensor) if experts.shared else 0
    router = model.hidden * experts.count
    each = _mlp(model, model.ffn // (layout.expert_tensor or layout.tensor))
    return replace(
        layer(model, layout.tensor),
        mlp=router + shared,
        experts=(held or experts.count // layout.expert) * each,
    )


def embedding(model: Model, tensor: int = 1) -> int:
    if model.patches is not None:
        patch_values = model.patches.in_channels * model.patches.size**2
        table = (patch_values + 1) * model.hidden
    else:
        table = _vocabulary_rows(model, tensor) * model.hidden
    return table + (model.sequence * model.hidden if model.positions == "learned" else 0)


def head(model: Model, tensor: int = 1) -> int:
    """Count the matrix that computes logits (or patches), tied or not."""
    if model.patches is not None:
        return model.patches.out_channels * model.patches.size**2 * model.hidden
    return _vocabulary_rows(model, tensor) * model.hidden


def _vocabulary_rows(model: Model, tensor: int) -> int:
    return -(-model.padded_vocabulary(tensor) // tensor)


def parameters(model: Model, padded: bool = False, tensor: int = 1) -> Parameters:
    """Count the whole model. Published counts use the true vocabulary; a built model has padding
    rows, whose number depends on `tensor`."""
    expect(Model, "model", model, 'plan.preset("13b")')
    tensor, padded = whole_number("tensor", tensor), flag("padded", padded)
    rows = model.padded_vocabulary(tensor) if padded else model.vocabulary
    whole = model.but(vocabulary=rows, pad_vocabulary_to=1) if model.causal else model
    return _whole(model, whole)


def _whole(model: Model, padded: Model, held: int = 0) -> Parameters:
    routed, untied = model.expert_layers, model.patches is not None or not model.tied
    one, other = layer(model), expert_layer(model, Layout(), held)
    joined, mtp_norms = _mtp(model)
    return Parameters(
        embedding=embedding(padded),
        attention=one.attention * model.all_layers,
        mlp=one.mlp * (model.all_layers - routed) + other.mlp * routed + joined,
        norms=one.norms * model.all_layers + _norm(model) + mtp_norms,
        head=head(padded) if untied else 0,
        experts=other.experts * routed,
    )


def active_parameters(model: Model) -> int:
    """Count the parameters that one token uses. They determine the arithmetic for this token."""
    expect(Model, "model", model, 'plan.preset("mixtral-8x7b")')
    if model.experts is None:
        return parameters(model).total
    true = model.but(pad_vocabulary_to=1)
    return _whole(model, true, model.experts.per_token).total


def on_rank(model: Model, layout: Layout, stage: int) -> Parameters:
    """Count the parameters of one rank of a pipeline stage before sharding over data ranks. With a
    pipeline, the last stage has a copy of an embedding that is tied, or that MTP layers need."""
    expect(Model, "model", model, 'plan.preset("13b")')
    stages = expect(Layout, "layout", layout, "plan.Layout(data=4)").pipeline
    if whole_number("stage", stage, 0) >= stages:
        raise PlanError(
            _(
                "stage {stage} is too large for pipeline {stages}; use {stages2} or less",
                stage=stage,
                stages=stages,
                stages2=stages - 1,
            )
        )
    last = head_rank(model, layout)
    layers = layers_of_stages(model, layout)[stage]
    routed = expert_layers_of_stages(model, layout)[stage]
    one, other = layer(model, layout.tensor), expert_layer(model, layout)
    is_first, is_last = stage == 0, stage == last
    own_head = is_last and (not model.tied or model.patches is not None or not is_first)
    copied = is_last and model.mtp_layers and not model.tied
    joined, mtp_norms = _mtp(model, layout.tensor) if is_last else (0, 0)
    return Parameters(
        embedding=embedding(model, layout.tensor) if is_first or copied else 0,
        attention=one.attention * layers,
        mlp=one.mlp * (layers - routed) + other.mlp * routed + joined,
        norms=one.norms * layers + (_norm(model) if is_last else 0) + mtp_norms,
        head=head(model, layout.tensor) if own_head else 0,
        experts=other.experts * routed,
    )
