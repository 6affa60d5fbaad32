"""Memory of zero-bubble in the course's program: the weights' half of backward, put off."""

from __future__ import annotations

from course_lib.plan.memory.course_messages import Held, held_by, messages
from course_lib.plan.memory.course_sizes import LOSS_ROWS, WIDE, Parts, StageSizes

# Of a micro-batch, in rows: the gradient that its backward pass began with, on the last stage also
# what the norm gave on.
ENDS = {False: 1, True: 2}


def _put_off(sizes: StageSizes) -> tuple[float, float]:
    """Bytes of one micro-batch whose weights' half waits: inputs of the products of its layers, and
    gradients of their outputs. The last stage keeps the gradient of the logits, which in float32
    lies where these were."""
    model, cut = sizes.model, 1 / sizes.layout.tensor
    wide = model.ffn * (2 if model.activation == "swiglu" else 1)
    inputs, gradients = (
        sizes.layers * sizes.bytes(2 * model.hidden + widths * cut)
        for widths in (
            model.query_width + model.ffn,
            model.query_width + 2 * model.kv_width + wide,
        )
    )
    gradients += ENDS[sizes.is_last] * sizes.row
    if not sizes.is_last:
        return inputs, gradients
    if sizes.element == WIDE:
        return inputs + sizes.logits, gradients
    return inputs, gradients + sizes.logits / 2


def deferred(sizes: StageSizes, held: Held) -> tuple[float, float]:
    """Bytes of micro-batches whose weights wait, and of the layer at work: in the
    topmost one, and on the last stage at the loss, or in float32 after it."""
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
    """The other time at which zero-bubble may hold most: when the last stage makes the word
    matrix's gradient in bf16, which is then added in float32, and the backward pass before has put
    off its weights too."""
    if sizes.layout.precision != "bf16":
        return 0.0, 0.0, 0.0
    held = held_by(sizes)
    inputs, gradients = _put_off(sizes)
    waiting = held.deferred + 1
    product = sizes.word_matrix * (sizes.element + WIDE)
    return waiting * inputs, 0.0, waiting * gradients + product + messages(sizes, held)[1]
