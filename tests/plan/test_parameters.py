"""Counts agree with published models, with a model built from torch's modules, and rank by rank."""

import pytest
import torch
from torch import nn

from course_lib.plan import Layout, Model, Patches, PlanError, preset
from course_lib.plan.shapes.parameter_counts import on_rank, parameters
from course_lib.plan.shapes.stages import head_rank, layers_of_stages


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("gpt2", 124_439_808),
        ("llama-1b", 1_235_814_400),
        ("llama-3b", 3_212_749_824),
        ("llama-8b", 8_030_261_248),
        ("llama-70b", 70_553_706_496),
    ],
)
def test_counts_equal_those_of_published_checkpoints(name, published):
    assert parameters(preset(name)).total == published


def test_mosaic_mpt_125m_with_a_sequence_of_2048_counts_its_published_parameters():
    mpt = Model("mpt", 12, 768, 12, 2048, 50368)
    assert parameters(mpt).total == 125_311_488


@pytest.mark.parametrize("name", ["lab", "18b", "175b", "1t"])
def test_counts_equal_the_lab_s_formula_up_to_the_final_norm(name):
    model = preset(name)
    h, layers, tokens, rows = model.hidden, model.layers, model.sequence, model.vocabulary
    formula = 12 * layers * h**2 * (1 + 13 / (12 * h) + (rows + tokens) / (12 * layers * h))
    assert parameters(model).total == pytest.approx(formula + 2 * h, abs=1)


class Block(nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        h, norm = model.hidden, nn.LayerNorm if model.norm == "layernorm" else nn.RMSNorm
        self.norms = nn.ModuleList([norm(h), norm(h)])
        width = model.query_width + model.kv_width
        up = model.ffn * (2 if model.activation == "swiglu" else 1)
        self.matrices = nn.ModuleList(
            [
                nn.Linear(h, width, bias=model.bias),
                nn.Linear(model.query_width, h, bias=model.bias),
                nn.Linear(h, up, bias=model.bias),
                nn.Linear(model.ffn, h, bias=model.bias),
            ]
        )


def built_count(model: Model) -> int:
    parts = [Block(model) for _ in range(model.layers)]
    norm = nn.LayerNorm if model.norm == "layernorm" else nn.RMSNorm
    parts.append(norm(model.hidden))
    if model.patches is not None:
        p = model.patches
        parts.append(nn.Conv2d(p.in_channels, model.hidden, p.size, p.size))
        parts.append(nn.Linear(model.hidden, p.out_channels * p.size**2, bias=False))
    else:
        rows = model.padded_vocabulary()
        parts.append(nn.Embedding(rows, model.hidden))
        if not model.tied:
            parts.append(nn.Linear(model.hidden, rows, bias=False))
    if model.positions == "learned":
        parts.append(nn.Embedding(model.sequence, model.hidden))
    return sum(value.numel() for part in parts for value in part.parameters())


SHAPES = [
    Model("gpt", 3, 64, 4, 32, 1000),
    Model("untied", 2, 64, 4, 32, 1000, tied=False, positions="rotary"),
    Model("llama", 2, 64, 8, 32, 1000, 2, activation="swiglu", norm="rmsnorm", bias=False),
    Model("wide heads", 1, 64, 4, 32, 500, head_size=32),
    Model("vit", 2, 64, 4, 1, patches=Patches(32, 64, 8, 20, 5)),
]  # fmt: skip


@pytest.mark.parametrize("model", SHAPES, ids=lambda model: model.name)
def test_counts_equal_a_model_built_from_torch_modules(model):
    with torch.device("meta"):
        assert parameters(model, padded=True).total == built_count(model)


def test_ranks_together_hold_the_model_and_what_they_hold_twice():
    model = preset("lab")
    layout = Layout(tensor=2, pipeline=3)
    held = 2 * sum(on_rank(model, layout, stage).total for stage in range(3))
    h = model.hidden
    row_biases_and_norms = model.layers * (2 * h + 4 * h) + 2 * h
    positions = model.sequence * h
    tied_copy = model.padded_vocabulary(2) * h
    whole = parameters(model, padded=True, tensor=2).total
    assert held == whole + row_biases_and_norms + positions + tied_copy


def test_one_stage_holds_a_tied_embedding_once():
    model = preset("lab")
    assert on_rank(model, Layout(), 0).total == parameters(model, padded=True).total


def test_stages_are_dealt_by_their_rule():
    bloom = Model("bloom", 70, 14336, 112, 2048, 250680, positions="alibi")
    assert layers_of_stages(bloom, Layout(pipeline=12, stages="ends-count")) == (5, *[6] * 10, 5)
    assert layers_of_stages(preset("lab"), Layout(pipeline=5, stages="nearly-even")) == (
        3,
        3,
        2,
        2,
        2,
    )
    billion = Model("1B", 16, 2048, 32, 4096, 131072, ffn=8192, activation="swiglu")
    assert layers_of_stages(billion, Layout(pipeline=2, stages="by-cost")) == (10, 6)
    assert head_rank(billion, Layout(pipeline=16, stages="by-cost")) == 12


def test_a_list_of_stages_goes_round_the_ranks_once_for_each_virtual_stage():
    model = preset("lab")
    uneven = Layout(pipeline=2, virtual=2, micro_batch=1, global_batch=4, stages=[2, 3, 4, 3])
    uneven.check(model)
    assert layers_of_stages(model, uneven) == (6, 6)
    with pytest.raises(PlanError, match="hold 13 layers in all and the model has 12"):
        uneven.but(stages=(2, 3, 4, 4)).check(model)
    with pytest.raises(PlanError, match="lists 3 numbers for pipeline 2 × virtual 2 = 4 stages"):
        uneven.but(stages=(4, 4, 4))


def test_layers_that_do_not_divide_need_a_rule():
    model = preset("lab").but(layers=62)
    for stages in ("nearly-even", "ends-count"):
        Layout(pipeline=8, stages=stages).check(model)
    with pytest.raises(PlanError, match="does not divide layers 62"):
        Layout(pipeline=8).check(model)
    with pytest.raises(PlanError, match="does not divide layers and both ends 64"):
        Layout(pipeline=6, stages="ends-count").check(model)
    with pytest.raises(PlanError, match="more than the 62 layers"):
        Layout(pipeline=64, stages="nearly-even").check(model)
