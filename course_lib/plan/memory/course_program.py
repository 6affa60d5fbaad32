"""Peak memory of the course's own program, in the parts that its memory traces name.

The program is short enough to count its buffers one by one. The peak is in the backward pass with
most micro-batches alive, at the loss or in the stage's last layer. If micro-batches are small, the
peak is in the optimizer step."""

from __future__ import annotations

from course_lib.plan.memory.course_messages import held_activations, messages
from course_lib.plan.memory.course_sizes import LOSS_ROWS, WIDE, Parts, StageSizes
from course_lib.plan.memory.course_zero_bubble import deferred, weights_at_last
from course_lib.plan.schedules.costs import alive
from course_lib.plan.shapes.parameter_counts import layer


def standing(sizes: StageSizes) -> tuple[float, float, float]:
    """Return bytes of parameters, gradients and optimizer state on this rank between two steps."""
    layout, held = sizes.layout, sizes.held
    sharers = layout.data * layout.context
    low = layout.precision != "fp32"
    weights, state = float(held * sizes.element), held * (12.0 if low else 8.0)
    gradients = float(held * (2 if layout.precision == "fp16" else WIDE))
    if layout.zero == 1 and sharers > 1:
        return weights, gradients * (1 + 1 / sharers), state / sharers
    if layout.zero == 3:
        # All in float32; a step's sharded gradients stay until the next step's replace them.
        share = held * WIDE / sharers
        return share, share, 2 * share
    return weights, gradients, state


def passing(sizes: StageSizes, kept: float, again: float) -> Parts:
    """Return the largest temporary parts; `kept` and `again` are one micro-batch's bytes."""
    if sizes.layout.zero == 3:
        activations, logits, temporary = _sharded(sizes, kept)
        backward = [(activations + max(0.0, again - logits), logits, temporary)]
    elif not sizes.is_last:
        backward = [_in_layer(sizes, kept, again)]
    elif sizes.layout.schedule == "zero-bubble":
        backward = [_at_loss(sizes, kept), weights_at_last(sizes)]
    else:
        backward = [_at_loss(sizes, kept), _in_layer(sizes, kept, again)]
    return max(*backward, (0.0, 0.0, _stepping(sizes)), key=sum)


def _in_layer(sizes: StageSizes, kept: float, again: float) -> Parts:
    """Return the parts in the last layer's backward. GPipe's other micro-batches keep losses."""
    activations, temporary = _waiting(sizes, kept)
    others = alive(sizes.layout, sizes.stage) - 1.0
    losses = others if sizes.is_last and sizes.layout.schedule == "gpipe" else 0.0
    if sizes.model.activation == "swiglu":  # freed before its factors' gradients
        again -= sizes.bytes(sizes.model.ffn) / sizes.layout.tensor
    return activations + again, losses * sizes.loss, temporary + sizes.working


def _at_loss(sizes: StageSizes, kept: float) -> Parts:
    activations, temporary = _waiting(sizes, kept)
    gpipe = sizes.layout.schedule == "gpipe"
    losses = alive(sizes.layout, sizes.stage) if gpipe else 1.0
    at_loss = LOSS_ROWS * sizes.whole_row  # gathered if the sequence is split
    return activations, losses * sizes.loss, temporary + at_loss + _low_loss(sizes)


def _waiting(sizes: StageSizes, kept: float) -> tuple[float, float]:
    """Return bytes of micro-batches that wait for their backward pass, and of messages."""
    activations, temporary = alive(sizes.layout, sizes.stage) * kept, 0.0
    if sizes.layout.pipeline > 1:
        held = held_activations(sizes)
        for more in (messages, deferred):
            kept_more, passing_more = more(sizes, held)
            activations, temporary = activations + kept_more, temporary + passing_more
    return activations, temporary


def _low_loss(sizes: StageSizes) -> float:
    """Return extra bytes at the loss in 16 bits, where the gradient of the logits is a 16-bit copy.
    In bf16 the gradient of the word matrix is computed in 16 bits and added in 32. In fp16 the
    matmul adds directly, because gradients are 16-bit; zero-bubble computes it later."""
    if sizes.element == WIDE:
        return 0.0
    copied = sizes.logits / 2 - sizes.row
    if sizes.layout.precision == "fp16" or sizes.layout.schedule == "zero-bubble":
        return copied
    return copied + sizes.word_matrix * (sizes.element + WIDE)


def _sharded(sizes: StageSizes, kept: float) -> Parts:
    """Return the parts of FSDP: embedding and final norm stay gathered until backward, and the last
    layer is gathered for it. PyTorch's loss keeps its softmax and allocates two more buffers of its
    size. A tensor group uses the program's own loss and a full-size gradient of the word matrix."""
    model, layout = sizes.model, sizes.layout
    root = (sizes.held - layer(model, layout.tensor).total * model.layers) * sizes.element
    gathered = layer(model, layout.tensor).total * sizes.element
    summed = sizes.held * WIDE if layout.micro_batches > 1 else 0
    at_loss = 2 * sizes.logits
    if layout.tensor > 1:
        at_loss = sizes.word_matrix * sizes.element + LOSS_ROWS * sizes.whole_row
    return kept + root, sizes.logits + sizes.row, at_loss + gathered + summed


def _stepping(sizes: StageSizes) -> float:
    """Return temporary bytes of the optimizer step, when no activation is left. fp16 copies its
    gradients to float32. ZeRO-1's reduce-scatter copies gradients (gloo sums all of them), and its
    all-gather allocates all parameters anew from a copy of this rank's. NCCL does neither."""
    layout = sizes.layout
    sharers = layout.data * layout.context
    if layout.zero == 3:
        return 0.0
    split = layout.zero == 1 and sharers > 1
    widened = sizes.held * WIDE / (sharers if split else 1) if layout.precision == "fp16" else 0.0
    if not split:
        return widened
    summed = sizes.held * (2 if layout.precision == "fp16" else WIDE)
    return max(widened, summed, sizes.held * sizes.element * (1 + 1 / sharers))
