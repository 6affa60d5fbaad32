"""Peak memory of the course's own program, in the parts that its memory traces name.

The program is short enough to be counted buffer by buffer. The peak lies where the first of the
last forward passes' activations is taken down, at the loss or in the stage's topmost layer; or, of
small micro-batches, where the optimizer steps.
"""

from __future__ import annotations

from course_lib.plan.memory.course_messages import held_by, messages
from course_lib.plan.memory.course_sizes import LOSS_ROWS, WIDE, Parts, StageSizes
from course_lib.plan.memory.course_zero_bubble import deferred, weights_at_last
from course_lib.plan.schedules.costs import alive
from course_lib.plan.shapes.parameter_counts import layer


def standing(sizes: StageSizes) -> tuple[float, float, float]:
    """Parameters, gradients and optimizer state: bytes on this rank between two steps."""
    layout, held = sizes.layout, sizes.held
    sharers = layout.data * layout.context
    low = layout.precision != "fp32"
    weights, state = float(held * sizes.element), held * (12.0 if low else 8.0)
    gradients = float(held * (2 if layout.precision == "fp16" else WIDE))
    if layout.zero == 1 and sharers > 1:
        return weights, gradients * (1 + 1 / sharers), state / sharers
    if layout.zero == 3:
        # All in float32; the sharded gradients of a step stay until the next ones are there.
        share = held * WIDE / sharers
        return share, share, 2 * share
    return weights, gradients, state


def passing(sizes: StageSizes, kept: float, again: float) -> Parts:
    """Where they are most; `kept` is one micro-batch's, `again` what recomputation brings back."""
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
    """In the topmost one; of GPipe's micro-batches, all others still have their loss."""
    activations, temporary = _waiting(sizes, kept)
    others = alive(sizes.layout, sizes.stage) - 1.0
    losses = others if sizes.is_last and sizes.layout.schedule == "gpipe" else 0.0
    if sizes.model.activation == "swiglu":  # its product is freed before its factors' gradients
        again -= sizes.bytes(sizes.model.ffn) / sizes.layout.tensor
    return activations + again, losses * sizes.loss, temporary + sizes.working


def _at_loss(sizes: StageSizes, kept: float) -> Parts:
    activations, temporary = _waiting(sizes, kept)
    gpipe = sizes.layout.schedule == "gpipe"
    losses = alive(sizes.layout, sizes.stage) if gpipe else 1.0
    at_loss = LOSS_ROWS * sizes.whole_row  # gathered, where the sequence is split
    return activations, losses * sizes.loss, temporary + at_loss + _low_loss(sizes)


def _waiting(sizes: StageSizes, kept: float) -> tuple[float, float]:
    """Bytes of micro-batches that wait for their backward pass, and of messages."""
    activations, temporary = alive(sizes.layout, sizes.stage) * kept, 0.0
    if sizes.layout.pipeline > 1:
        held = held_by(sizes)
        for more in (messages, deferred):
            kept_more, passing_more = more(sizes, held)
            activations, temporary = activations + kept_more, temporary + passing_more
    return activations, temporary


def _low_loss(sizes: StageSizes) -> float:
    """In half precision the gradient of the logits is copied to 16 bits. In bf16 the product for
    the word matrix is made in 16 bits, and added in 32; fp16 keeps its gradients in 16 bits, so
    that the product adds by itself, and zero-bubble makes it later."""
    if sizes.element == WIDE:
        return 0.0
    copied = sizes.logits / 2 - sizes.row
    if sizes.layout.precision == "fp16" or sizes.layout.schedule == "zero-bubble":
        return copied
    return copied + sizes.word_matrix * (sizes.element + WIDE)


def _sharded(sizes: StageSizes, kept: float) -> Parts:
    """FSDP: embedding and final norm stay gathered until backward, the topmost layer is gathered
    for it. The loss is PyTorch's, which keeps its softmax and makes two more of that size; that of
    a tensor group is the program's own, but its word matrix gets a gradient of its whole size."""
    model, layout = sizes.model, sizes.layout
    root = (sizes.held - layer(model, layout.tensor).total * model.layers) * sizes.element
    gathered = layer(model, layout.tensor).total * sizes.element
    summed = sizes.held * WIDE if layout.micro_batches > 1 else 0
    at_loss = 2 * sizes.logits
    if layout.tensor > 1:
        at_loss = sizes.word_matrix * sizes.element + LOSS_ROWS * sizes.whole_row
    return kept + root, sizes.logits + sizes.row, at_loss + gathered + summed


def _stepping(sizes: StageSizes) -> float:
    """Temporary bytes while the optimizer steps, when no activation is left. fp16 has its gradients
    copied to float32; ZeRO-1's reduce-scatter copies them (gloo sums them all), and its all-gather
    makes all parameters anew, from a copy of this rank's. (NCCL makes neither: GPUs need less.)"""
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
