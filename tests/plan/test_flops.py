"""FLOPs: equal to published examples up to rounding, and to torch's own counter exactly."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_lib.plan import Layout, Model, Patches, preset
from course_lib.plan.shapes.flops import of_iteration, of_sequence, training_days
from course_lib.plan.shapes.parameter_counts import parameters


def test_the_18_b_case_of_the_original_lab_and_what_its_wrong_sequence_hid():
    run = Layout(data=16, global_batch=512, recompute="full")
    wrong, right = preset("18b").but(sequence=1048), preset("18b")
    rates = [of_iteration(model, run).hardware / 16 / 32.09 / 1e12 for model in (wrong, right)]
    assert [round(rate, 1) for rate in rates] == [157.7, 154.0]
    assert round(100 * rates[0] / 312, 1) == pytest.approx(50.6, abs=0.06)


def test_the_formula_with_96_is_four_passes_over_the_layers_and_three_over_the_head():
    model = preset("18b")
    h, layers, tokens, rows = model.hidden, model.layers, model.sequence, model.vocabulary
    formula = 96 * 512 * tokens * layers * h**2
    formula *= 1 + tokens / (6 * h) + rows / (16 * layers * h)
    counted = of_iteration(model, Layout(global_batch=512, recompute="full"))
    assert counted.hardware == pytest.approx(formula, rel=1e-12)


def test_published_training_times_come_out_to_the_day():
    assert round(training_days(18.4e9, 300e9, 16, 157.7, 8)) == 203
    assert round(training_days(175e9, 300e9, 1024, 140, 8)) == 34


def test_six_flops_per_parameter_and_token_become_eight_only_with_full_recomputation():
    model = preset("175b").but(sequence=1)
    held = parameters(model).layers - parameters(model).norms
    without = of_sequence(model)
    fully = of_sequence(model, Layout(recompute="full"))
    inside = without.projections + without.mlp
    assert 3 * inside / held == pytest.approx(6, rel=1e-3)
    assert (3 * inside + fully.recomputed - fully.attention) / held == pytest.approx(8, rel=1e-3)


class Reference(nn.Module):
    """The matmuls of the model alone, in torch's own operations."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        h, up = model.hidden, model.ffn * (2 if model.activation == "swiglu" else 1)
        shapes = [
            (h, model.query_width + model.kv_width),
            (model.query_width, h),
            (h, up),
            (model.ffn, h),
        ]
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Linear(*shape) for shape in shapes) for _ in range(model.layers)
        )
        if model.patches is not None:
            p = model.patches
            self.entry = nn.Conv2d(p.in_channels, h, p.size, p.size)
            self.head = nn.Linear(h, p.out_channels * p.size**2, bias=False)
        else:
            self.entry = nn.Embedding(model.vocabulary, h)
            self.head = nn.Linear(h, model.vocabulary, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        x = self.entry(inputs)
        if self.model.patches is not None:
            x = x.flatten(2).transpose(1, 2)
        for into, out, up, down in self.layers:
            x = x + out(self.attend(into(x)))
            y = up(x)
            if self.model.activation == "swiglu":
                gate, value = y.chunk(2, dim=-1)
                y = F.silu(gate) * value
            x = x + down(F.gelu(y) if self.model.activation == "gelu" else y)
        return self.head(x)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        m = self.model
        widths = [m.query_width, m.kv_width // 2, m.kv_width // 2]
        q, k, v = (
            part.unflatten(-1, (-1, m.head_size)).transpose(1, 2)
            for part in x.split(widths, dim=-1)
        )
        k, v = (part.repeat_interleave(m.heads // m.kv_groups, 1) for part in (k, v))
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        return (scores @ v).transpose(1, 2).flatten(2)


CASES = [
    Model("gpt", 2, 64, 4, 32, 384),
    Model("llama", 3, 64, 8, 16, 500, kv_groups=2, activation="swiglu"),
    Model("vit", 2, 64, 4, 1, patches=Patches(32, 32, 8, 5, 3)),
]


@pytest.mark.parametrize("model", CASES, ids=lambda model: model.name)
def test_torch_counts_the_same_flops_forward_and_backward(model):
    reference = Reference(model)
    shape = (2, model.patches.in_channels, 32, 32) if model.patches else (2, model.sequence)
    inputs = torch.randn(shape) if model.patches else torch.zeros(shape, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        result = reference(inputs).sum()
        forward = counter.get_total_flops()
        result.backward()
    expected = of_sequence(model).times(2)
    assert forward == expected.forward
    assert counter.get_total_flops() == expected.model


def test_a_causal_mask_halves_attention_only():
    model = preset("lab")
    full, causal = of_sequence(model), of_sequence(model, causal=True)
    assert causal.attention == full.attention / 2
    assert causal.model == full.model - 1.5 * full.attention


def test_recomputation_counts_as_hardware_flops_only():
    model, layout = preset("lab"), Layout(pipeline=2)
    none = of_sequence(model, layout)
    selective = of_sequence(model, layout.but(recompute="selective"))
    block = of_sequence(
        model, layout.but(recompute="full", recompute_method="block", recompute_layers=2)
    )
    uniform = of_sequence(model, layout.but(recompute="full"))
    layers = none.projections + none.attention + none.mlp
    assert [f.model for f in (selective, block, uniform)] == [none.model] * 3
    assert [f.recomputed for f in (none, selective, block, uniform)] == [
        0,
        none.attention,
        layers * 4 / 12,
        layers,
    ]


def test_a_window_leaves_the_pairs_of_tokens_in_it():
    model = preset("llama-8b").but(sequence=64)
    for window in (1, 2, 10, 63, 64, 100):
        pairs = sum(min(token + 1, window) for token in range(64))
        every = of_sequence(model.but(window=window), causal=True).attention
        some = of_sequence(model.but(window=window, windowed=8), causal=True).attention
        full = of_sequence(model, causal=True).attention
        assert every / full == pytest.approx(pairs / (64 * 65 / 2))
        assert some == pytest.approx(full - (full - every) * 8 / model.layers)
