"""Memory of one rank of each pipeline stage, by part."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.checks import PlanError
from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.memory import course_program, course_sizes
from course_lib.plan.schedules.costs import alive, put_off
from course_lib.plan.shapes.flops import recomputed_layers
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import expert_layer, layer, on_rank
from course_lib.plan.shapes.stages import (
    expert_layers_of_stages,
    head_rank,
    layers_of_stages,
)
from course_lib.plan.time.kernels import ELEMENT_BYTES, OPERAND_BYTES
from course_lib.words import _


@dataclass(frozen=True)
class StageMemory:
    """Bytes that the program has allocated at the peak of one iteration, by part."""

    stage: int
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    temporary: float

    @property
    def allocated(self) -> float:
        named = self.parameters + self.gradients + self.optimizer
        return named + self.activations + self.logits + self.temporary

    def reserved(self, stack: Stack) -> float:
        """Return the bytes that the caching allocator reserves, with fragmentation."""
        return self.allocated * (1 + stack.reserve_share)

    @property
    def parts(self) -> dict[str, float]:
        names = ("parameters", "gradients", "optimizer", "activations", "logits", "temporary")
        return {name: float(getattr(self, name)) for name in names}

    @property
    def traced(self) -> dict[str, float]:
        """Return the parts as memory traces name them, with the logits among the activations."""
        parts = self.parts
        parts["activations"] += parts.pop("logits")
        return parts


def memory_of_stages(model: Model, layout: Layout, stack: Stack) -> tuple[StageMemory, ...]:
    """Return one entry per pipeline rank."""
    return tuple(memory_of_stage(model, layout, stack, s) for s in range(layout.pipeline))


def peak_stage(model: Model, layout: Layout, stack: Stack) -> StageMemory:
    """Return the fullest stage. The first stage holds most micro-batches, the last the logits; a
    stage between them can only be fullest if it has more layers."""
    last = head_rank(model, layout)
    layers = layers_of_stages(model, layout)
    stages = {0, last, layers.index(max(layers))}
    found = [memory_of_stage(model, layout, stack, stage) for stage in sorted(stages)]
    return max(found, key=lambda stage: stage.allocated)


def memory_of_stage(model: Model, layout: Layout, stack: Stack, stage: int) -> StageMemory:
    """Return the memory at the end of a forward pass, with the logits, or in the backward pass of a
    recomputed layer, whichever is larger."""
    if stack.counted:
        return _counted(model, layout, stack, stage)
    held = on_rank(model, layout, stage)
    layers = layers_of_stages(model, layout)[stage]
    is_last = stage == head_rank(model, layout)
    tokens = layout.micro_batch * model.sequence // layout.context
    ranks = layout.tensor * layout.context * layout.data
    shared = (
        (held.unrouted, _bytes_per_parameter(layout, stack, layout.data * layout.context)),
        (held.experts, _bytes_per_parameter(layout, stack, max(1, ranks // layout.expert_ranks))),
    )
    weights, gradients, state = (
        sum(count * each[kind] for count, each in shared) for kind in range(3)
    )
    routed = expert_layers_of_stages(model, layout)[stage]
    kept, working = _activations(model, layout, stack, layers, routed)
    logits = model.heads_of_loss * _logits(model, layout, stack, tokens) if is_last else 0.0
    passing = stack.working_widths * tokens * model.hidden * ELEMENT_BYTES[layout.precision]
    temporary = _gathered_layers(model, layout, layers) + passing + stack.workspace_gib * 2**30
    temporary += _exchanged(model, layout) if routed else 0.0
    return StageMemory(
        stage=stage,
        parameters=weights,
        gradients=gradients,
        optimizer=state,
        activations=(alive(layout, stage) + put_off(layout, stage))
        * (1 - stack.offloaded_share)
        * kept,
        logits=logits,
        temporary=temporary + max(0.0, working - logits),
    )


def _counted(model: Model, layout: Layout, stack: Stack, stage: int) -> StageMemory:
    """Return the memory of the course's program, with recomputed activations as activations."""
    if model.experts or model.mtp_layers:
        raise PlanError(
            _(
                "the memory of the course's program is counted for models without experts and MTP "
                "layers only; "
                'use stack "megatron-core" for {model}',
                model=model.name,
            )
        )
    sizes = course_sizes.StageSizes(model, layout, stage)
    kept, again = _activations(model, layout, stack, sizes.layers, 0)
    entered = sizes.row if sizes.norms_keep_inputs else 0.0  # counted already
    working = max(0.0, again - entered)
    standing, passing = course_program.standing(sizes), course_program.passing(sizes, kept, working)
    return StageMemory(stage, *standing, *passing)


def _bytes_per_parameter(layout: Layout, stack: Stack, sharers: int) -> tuple[float, float, float]:
    """Return bytes of weights, gradients and state of a parameter of which `sharers` ranks have
    copies; fp32 has no master copy."""
    wide = layout.precision == "fp32"
    weights = 4.0 if wide else stack.weight_bytes
    gradients = 4.0 if wide else stack.gradient_bytes
    if layout.precision == "fp16" and stack.sums_in_fp16:
        gradients = 2.0
    state = 8.0 if wide else stack.optimizer_bytes
    if layout.zero in (1, 2) and not wide and weights > 2:
        # FSDP that keeps gathered weights: in 16 bits, and its float32 shards are masters.
        weights, state = 2.0, state + weights
    return (
        weights / (sharers if layout.zero == 3 else 1),
        gradients / (sharers if layout.zero >= 2 else 1),
        state / (sharers if layout.zero else 1),
    )


def _gathered_layers(model: Model, layout: Layout, layers: int) -> float:
    """Return the bytes of ZeRO-3's two gathered layers: the current one and the next."""
    if layout.zero != 3:
        return 0.0
    one = max(layer(model, layout.tensor).total, expert_layer(model, layout).total)
    return min(2.0, layers) * one * ELEMENT_BYTES[layout.precision]


def _exchanged(model: Model, layout: Layout) -> float:
    """Return the bytes of a layer's tokens on their way to experts and back, in two buffers."""
    return 2.0 * _routed(model, layout) * model.hidden * ELEMENT_BYTES[layout.precision]


def _routed(model: Model, layout: Layout) -> float:
    """Return the tokens of which the busiest rank holds copies for its experts."""
    if model.experts is None:
        return 0.0
    tokens = layout.micro_batch * model.sequence // layout.context / layout.tensor
    split = layout.expert_tensor or layout.tensor
    return tokens * model.experts.per_token * split * c.UNEVEN


def _logits(model: Model, layout: Layout, stack: Stack, tokens: int) -> float:
    if model.patches is not None:
        values = model.patches.out_channels * model.patches.size**2
        return 3.0 * tokens * values * ELEMENT_BYTES[layout.precision]
    rows = model.padded_vocabulary(layout.tensor) // layout.tensor
    normed = 2.0 * tokens * model.hidden * ELEMENT_BYTES[layout.precision]
    split = layout.tensor if layout.sequence_parallel else 1
    return float(tokens) * rows * stack.logit_bytes + normed / split


def _activations(
    model: Model, layout: Layout, stack: Stack, layers: int, routed: int
) -> tuple[float, float]:
    """Return bytes that one micro-batch keeps on this stage from forward to backward, and bytes
    that recomputation temporarily allocates. `routed` of the layers have experts."""
    dense = layer_activations(model, layout, stack)
    other = _expert_activations(model, layout, stack) if routed else 0.0
    full = (other * routed + dense * (layers - routed)) / layers if layers else dense
    tokens = layout.micro_batch * model.sequence // layout.context
    sharded = layout.tensor if layout.sequence_parallel else 1
    entry = tokens * model.hidden * ELEMENT_BYTES[layout.precision] / sharded
    embedded = entry * 0.5 if stack.drops(model) else 0.0
    if layout.recompute != "full":
        return layers * full + embedded, 0.0
    again = round(layers * recomputed_layers(model, layout) / model.layers)
    if layout.recompute_method == "block":
        return again * entry + (layers - again) * full + embedded, full
    groups = -(-layers // layout.recompute_layers)
    largest = other if routed else dense
    return groups * entry + embedded, min(layers, layout.recompute_layers) * largest


def _expert_activations(model: Model, layout: Layout, stack: Stack) -> float:
    """Return bytes that a layer with experts saves: attention and shared experts, and for each
    routed token the inputs of its expert's matmuls and activation function."""
    experts = model.experts
    assert experts is not None
    element, operand = ELEMENT_BYTES[layout.precision], OPERAND_BYTES[layout.precision]
    inner = model.ffn / (layout.expert_tensor or layout.tensor)
    gates = 2 if model.activation == "swiglu" else 1
    each = (model.hidden + inner) * operand + gates * inner * element
    each += stack.returned_widths * model.hidden * element
    shared = layer_activations(model, layout, stack, experts.shared * model.ffn)
    return shared + _routed(model, layout) * each


def layer_activations(model: Model, layout: Layout, stack: Stack, ffn: int | None = None) -> float:
    """Return bytes that one layer with an MLP of this width (None: as in layers without experts)
    saves for the backward pass of one micro-batch. Without a split sequence, every tensor rank
    holds norm inputs and outputs (and dropout masks) whole; the ranks divide the rest (arXiv
    2205.05198, section 4)."""
    tokens = layout.micro_batch * model.sequence // layout.context
    element = ELEMENT_BYTES[layout.precision]
    mask = 2 if stack.drops(model) else 0
    # Linear layers save their inputs in the format of the matmul.
    operand = OPERAND_BYTES[layout.precision]
    narrower = (element - operand) / element
    path = float(tokens * model.hidden * (4 * element - 2 * (element - operand) + mask))
    whole_share = stack.whole_share
    if layout.sequence_parallel:
        whole_share = 2 * element / (4 * element + mask) if stack.keeps_gathered else 0.0
    widths = float(model.query_width) + model.context_width + model.kv_width
    widths += stack.copied_widths * model.hidden
    ffn = model.dense_ffn if ffn is None else ffn
    widths += ffn * ((3 if model.activation == "swiglu" else 2) - narrower)
    if narrower:  # attention needs its output in bf16, the projection after it in fewer bits
        widths += model.context_width * (1 - narrower)
    if model.latent:  # short vectors before and after their norms, on every tensor rank
        short = model.latent.kv_rank + model.latent.query_rank
        widths += (2 * short + model.latent.rotary_size) * layout.tensor
    if stack.counted:
        whole, cut = course_sizes.widths_more(model, layout)
        path, widths = path + tokens * whole * element, widths + cut
    if layout.context > 1 and stack.gathers_keys and layout.recompute != "selective":
        # Keys and values of the whole sequence, and the partial outputs that are combined.
        widths += model.kv_width * layout.context + model.context_width
    split = (tokens * widths * element + (1 - whole_share) * path) / layout.tensor
    return whole_share * path + split + _scores(model, layout, stack, tokens)


def _scores(model: Model, layout: Layout, stack: Stack, tokens: int) -> float:
    """Return bytes that attention keeps: the softmax (and dropout's mask and output), one number
    per row if fused, or nothing if recomputed."""
    heads = model.heads / layout.tensor
    if layout.flash:
        return tokens * heads * 4
    if layout.recompute == "selective":
        return 0.0
    element = ELEMENT_BYTES[layout.precision]
    cell_bytes = 2 * element + 1 if stack.drops(model) else element
    return tokens * model.sequence * heads * cell_bytes
