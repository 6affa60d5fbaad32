"""Floating-point operations of matmuls (a multiplication and an addition are two).

*Model* FLOPs are what the mathematics needs: a forward pass, and a backward pass with twice as
many. *Hardware* FLOPs include recomputed parts. Attention is counted in full, as by torch's counter
and most papers; `causal=True` counts only the half that a causal mask leaves. A window leaves the
same share of both."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.checks import expect, flag, positive, whole_number
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model


@dataclass(frozen=True)
class Flops:
    """FLOPs of one iteration on all devices or of one sequence, depending on the function."""

    projections: float  # forward: queries, keys, values, the output of attention, inputs of MTP
    attention: float  # forward: scores and their product with the values
    mlp: float  # forward, with routers
    head: float  # forward: logits, or the patches of a ViT
    embedding: float  # forward: the patch projection of a ViT; a token look-up multiplies nothing
    recomputed: float
    skipped: float  # backward that is not needed: the gradient of the pixels

    @property
    def forward(self) -> float:
        return self.projections + self.attention + self.mlp + self.head + self.embedding

    @property
    def backward(self) -> float:
        return 2 * self.forward - self.skipped

    @property
    def model(self) -> float:
        return self.forward + self.backward

    @property
    def hardware(self) -> float:
        return self.model + self.recomputed

    def times(self, factor: float) -> Flops:
        values = {name: getattr(self, name) * factor for name in self.__dataclass_fields__}
        return Flops(**values)


def of_sequence(
    model: Model, layout: Layout | None = None, causal: bool = False, padded: bool = False
) -> Flops:
    """Return the FLOPs of one sequence (ViT: one image), with the recomputation of `layout`."""
    tokens = expect(Model, "model", model, 'plan.preset("13b")').sequence
    causal, padded = flag("causal", causal), flag("padded", padded)
    if layout is not None:
        expect(Layout, "layout", layout, "plan.Layout(data=4)")
    hidden, routed = model.hidden, model.expert_layers
    matrices = 3 if model.activation == "swiglu" else 2
    projected = sum(inputs * outputs for inputs, outputs, _split in model.attention_matrices)
    projections = 2.0 * tokens * projected * model.all_layers
    projections += 2.0 * tokens * 2 * hidden**2 * model.mtp_layers
    widths = model.query_width + model.context_width
    pairs = model.attended_share * tokens * tokens * (0.5 if causal else 1)
    attention = 2.0 * pairs * widths * model.all_layers
    passed = (model.all_layers - routed) * matrices * model.dense_ffn
    if model.experts:
        passed += routed * (matrices * model.experts.passed * model.ffn + model.experts.count)
    mlp = 2.0 * tokens * hidden * passed
    patch_in = patch_out = 0
    if model.patches is not None:
        patch_in = model.patches.in_channels * model.patches.size**2
        patch_out = model.patches.out_channels * model.patches.size**2
    tensor = layout.tensor if layout else 1
    rows = model.padded_vocabulary(tensor) if padded else model.vocabulary
    embedding = 2.0 * tokens * patch_in * hidden
    return Flops(
        projections=projections,
        attention=attention,
        mlp=mlp,
        head=2.0 * tokens * hidden * (rows + patch_out) * model.heads_of_loss,
        embedding=embedding,
        recomputed=_recomputed(model, layout, projections + mlp + attention, attention),
        skipped=embedding,
    )


def _recomputed(model: Model, layout: Layout | None, all_layers: float, attention: float) -> float:
    if layout is None or layout.recompute == "none":
        return 0.0
    if layout.recompute == "selective":
        return attention
    return all_layers * recomputed_layers(model, layout) / model.layers


def recomputed_layers(model: Model, layout: Layout) -> int:
    """Return the layers that full recomputation runs twice: all of them ("uniform"), or the first
    `recompute_layers` of each (virtual) stage ("block")."""
    if layout.recompute != "full":
        return 0
    if layout.recompute_method == "uniform":
        return model.layers
    stages = layout.pipeline * layout.virtual
    return min(model.layers, layout.recompute_layers * stages)


def of_iteration(model: Model, layout: Layout, causal: bool = False, padded: bool = False) -> Flops:
    """Return the FLOPs of one iteration: the whole global batch on all devices."""
    expect(Layout, "layout", layout, "plan.Layout(data=4)")
    return of_sequence(model, layout, causal, padded).times(layout.global_batch)


def training_days(
    parameters: float, tokens: float, devices: int, tflops_per_device: float, factor: float = 6
) -> float:
    """Return days by the rule of thumb: `factor` FLOPs per parameter and token. Use 6 for model
    FLOPs, and 8 if the rate includes full recomputation. `tflops_per_device` is achieved, not the
    peak."""
    work = positive("tokens", tokens) * positive("parameters", parameters)
    rate = whole_number("devices", devices) * positive("tflops_per_device", tflops_per_device)
    return positive("factor", factor) * work / (rate * 1e12) / 86_400
