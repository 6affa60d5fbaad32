"""Memory of zero-bubble in the course's program, which defers the weights' half of backward."""

from __future__ import annotations

from course_lib.plan.memory.course_messages import Held, held_activations, messages
from course_lib.plan.memory.course_sizes import LOSS_ROWS, WIDE, Parts, StageSizes

# Rows per micro-batch: the gradient that starts its backward pass; on the last stage also the
# gradient that the norm passes on.
ENDS = {False: 1, True: 2}


def _put_off(sizes: StageSizes) -> tuple[float, float]:
    """Return bytes of inputs and output gradients that one micro-batch keeps for the deferred
    weights' half. The last stage also keeps the gradient of the logits; in float32 it overwrites
    the logits."""
    model, cut = sizes.model, 1 / sizes.layout.tensor
    wide = model.ffn * (2 if model.activation == "swiglu" else 1)
    inputs, gradients = (
        sizes.layers * sizes.bytes(2 * model.hidden + widths * cut)
        for widths in (
            model.query_width + model.ffn,
            model.query_width + model.kv_width + wide,
        )
    )
    gradients += ENDS[sizes.is_last] * sizes.row
    if not sizes.is_last:
        return inputs, gradients
    if sizes.element == WIDE:
        return inputs + sizes.logits, gradients
    return inputs, gradients + sizes.logits / 2


def deferred(sizes: StageSizes, held: Held) -> tuple[float, float]:
    """Return bytes of the micro-batches whose weights' half waits, and of the layer at work. This
    is the last layer, or on the last stage the loss (in float32 after the loss)."""
    if sizes.layout.schedule != "zero-bubble":
        return 0.0, 0.0
    inputs, gradients = _put_off(sizes)
    at_work = sizes.wide
    if sizes.is_last and sizes.element == WIDE:
        at_work += sizes.working + sizes.row - LOSS_ROWS * sizes.whole_row
    elif sizes.is_last:
        at_work = 0.0
    return held.deferred * inputs, held.deferred * gradients + at_work


def weights_at_last(sizes: StageSizes) -> Parts:
    """Return the parts at the other possible peak of zero-bubble: when the last stage computes the
    word matrix's gradient in bf16 and adds it in float32, with another micro-batch deferred."""
    if sizes.layout.precision != "bf16":
        return 0.0, 0.0, 0.0
    held = held_activations(sizes)
    inputs, gradients = _put_off(sizes)
    waiting = held.deferred + 1
    product = sizes.word_matrix * (sizes.element + WIDE)
    return waiting * inputs, 0.0, waiting * gradients + product + messages(sizes, held)[1]
