"""Memory of one rank of each pipeline stage, by part."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.code_bases import Stack
from course_lib.plan.memory import course_program, course_sizes
from course_lib.plan.schedules.costs import alive, put_off
from course_lib.plan.shapes.flops import recomputed_layers
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import layer, on_rank
from course_lib.plan.shapes.stages import head_rank, layers_of_stages
from course_lib.plan.time.kernels import ELEMENT_BYTES, OPERAND_BYTES


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
    held = float(on_rank(model, layout, stage).total)
    layers = layers_of_stages(model, layout)[stage]
    is_last = stage == head_rank(model, layout)
    tokens = layout.micro_batch * model.sequence // layout.context
    weights, gradients, state = _bytes_per_parameter(layout, stack)
    kept, working = _activations(model, layout, stack, layers)
    logits = _logits(model, layout, stack, tokens) if is_last else 0.0
    passing = stack.working_widths * tokens * model.hidden * ELEMENT_BYTES[layout.precision]
    temporary = _gathered_layers(model, layout, layers) + passing + stack.workspace_gib * 2**30
    return StageMemory(
        stage=stage,
        parameters=held * weights,
        gradients=held * gradients,
        optimizer=held * state,
        activations=(alive(layout, stage) + put_off(layout, stage)) * kept,
        logits=logits,
        temporary=temporary + max(0.0, working - logits),
    )


def _counted(model: Model, layout: Layout, stack: Stack, stage: int) -> StageMemory:
    """Return the memory of the course's program, with recomputed activations as activations."""
    sizes = course_sizes.StageSizes(model, layout, stage)
    kept, again = _activations(model, layout, stack, sizes.layers)
    entered = sizes.row if sizes.norms_keep_inputs else 0.0  # counted already
    working = max(0.0, again - entered)
    standing, passing = course_program.standing(sizes), course_program.passing(sizes, kept, working)
    return StageMemory(stage, *standing, *passing)


def _bytes_per_parameter(layout: Layout, stack: Stack) -> tuple[float, float, float]:
    """Return a rank's bytes of weights, gradients and state; fp32 has no master copy."""
    wide = layout.precision == "fp32"
    weights = 4.0 if wide else stack.weight_bytes
    gradients = 4.0 if wide else stack.gradient_bytes
    state = 8.0 if wide else stack.optimizer_bytes
    sharers = layout.data * layout.context
    return (
        weights / (sharers if layout.zero == 3 else 1),
        gradients / (sharers if layout.zero >= 2 else 1),
        state / (sharers if layout.zero else 1),
    )


def _gathered_layers(model: Model, layout: Layout, layers: int) -> float:
    """Return the bytes of ZeRO-3's two gathered layers: the current one and the next."""
    if layout.zero != 3:
        return 0.0
    one = layer(model, layout.tensor).total * ELEMENT_BYTES[layout.precision]
    return min(2.0, layers) * one


def _logits(model: Model, layout: Layout, stack: Stack, tokens: int) -> float:
    if model.patches is not None:
        values = model.patches.out_channels * model.patches.size**2
        return 3.0 * tokens * values * ELEMENT_BYTES[layout.precision]
    rows = model.padded_vocabulary(layout.tensor) // layout.tensor
    normed = 2.0 * tokens * model.hidden * ELEMENT_BYTES[layout.precision]
    split = layout.tensor if layout.sequence_parallel else 1
    return float(tokens) * rows * stack.logit_bytes + normed / split


def _activations(model: Model, layout: Layout, stack: Stack, layers: int) -> tuple[float, float]:
    """Return bytes that one micro-batch keeps on this stage from forward to backward, and bytes
    that recomputation temporarily allocates."""
    full = layer_activations(model, layout, stack)
    tokens = layout.micro_batch * model.sequence // layout.context
    sharded = layout.tensor if layout.sequence_parallel else 1
    entry = tokens * model.hidden * ELEMENT_BYTES[layout.precision] / sharded
    embedded = entry * 0.5 if stack.dropout else 0.0
    if layout.recompute != "full":
        return layers * full + embedded, 0.0
    again = round(layers * recomputed_layers(model, layout) / model.layers)
    if layout.recompute_method == "block":
        return again * entry + (layers - again) * full + embedded, full
    groups = -(-layers // layout.recompute_layers)
    return groups * entry + embedded, min(layers, layout.recompute_layers) * full


def layer_activations(model: Model, layout: Layout, stack: Stack) -> float:
    """Return bytes that one layer saves for the backward pass of one micro-batch. Without a split
    sequence, every tensor rank holds norm inputs and outputs (and dropout masks) whole; the ranks
    divide the rest (arXiv 2205.05198, section 4)."""
    tokens = layout.micro_batch * model.sequence // layout.context
    element = ELEMENT_BYTES[layout.precision]
    mask = 2 if stack.dropout else 0
    # Linear layers save their inputs in the format of the matmul.
    operand = OPERAND_BYTES[layout.precision]
    narrower = (element - operand) / element
    path = float(tokens * model.hidden * (4 * element - 2 * (element - operand) + mask))
    whole_share = stack.whole_share
    if layout.sequence_parallel:
        whole_share = 2 * element / (4 * element + mask) if stack.keeps_gathered else 0.0
    widths = 2 * model.query_width + 2 * model.kv_width + stack.copied_widths * model.hidden
    widths += model.ffn * ((3 if model.activation == "swiglu" else 2) - narrower)
    if narrower:  # attention needs its output in bf16, the projection after it in fewer bits
        widths += model.query_width * (1 - narrower)
    if stack.counted:
        whole, cut = course_sizes.widths_more(model, layout)
        path, widths = path + tokens * whole * element, widths + cut
    if layout.context > 1 and stack.gathers_keys and layout.recompute != "selective":
        # Keys and values of the whole sequence, and the partial outputs that are combined.
        widths += 2 * model.kv_width * layout.context + model.query_width
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
    cell_bytes = 2 * element + 1 if stack.dropout else element
    return tokens * model.sequence * heads * cell_bytes
