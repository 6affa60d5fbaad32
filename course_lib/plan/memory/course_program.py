"""What the course's own program holds at its peak, in the parts that its memory traces name.

The program is short enough to be counted buffer by buffer. `row` is one micro-batch's hidden states
on one rank, the size of what stages send each other. The peak lies where the first of the last
forward passes' activations is taken down, at the loss or in the stage's topmost layer; or, of small
micro-batches, where the optimizer steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.memory.course_messages import Held, at_peak
from course_lib.plan.schedules.costs import alive
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import layer, on_rank
from course_lib.plan.shapes.stages import head_rank, layers_of_stages
from course_lib.plan.time.kernels import ELEMENT_BYTES

# While a layer's MLP goes backward: the gradient that came in, a row, and one of four widths.
MLP_WIDTHS = 4
# At the loss: the gradient of the last norm's output, and its input's.
LOSS_ROWS = 2
# Of a layer whose weights' half waits: inputs of its four products, and gradients of their outputs,
# in rows that are whole and rows that are cut over the tensor group. Once for a micro-batch: the
# gradient that it began with, at the loss also what the norm gave on.
DEFERRED_INPUTS, DEFERRED_GRADIENTS = (2, 5), (2, 7)
DEFERRED_ENDS = {False: 1, True: 2}
WIDE = 4  # bytes of a float32


@dataclass(frozen=True)
class StageSizes:
    """One stage of one run, and the sizes that its buffers are multiples of."""

    model: Model
    layout: Layout
    stage: int

    @property
    def tokens(self) -> int:
        return self.layout.micro_batch * self.model.sequence // self.layout.context

    @property
    def element(self) -> int:
        return ELEMENT_BYTES[self.layout.precision]

    @property
    def whole_row(self) -> float:
        return float(self.tokens * self.model.hidden * self.element)

    @property
    def row(self) -> float:
        return self.whole_row / (self.layout.tensor if self.layout.sequence_parallel else 1)

    @property
    def is_last(self) -> bool:
        return self.stage == head_rank(self.model, self.layout.pipeline)

    @property
    def logits(self) -> float:
        """Kept once, in float32: the softmax overwrites them."""
        rows = self.model.padded_vocabulary(self.layout.tensor) // self.layout.tensor
        return float(self.tokens * rows * WIDE)

    @property
    def held(self) -> int:
        return on_rank(self.model, self.layout, self.stage).total

    @property
    def layers(self) -> int:
        return layers_of_stages(self.model, self.layout.pipeline)[self.stage]


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


def passing(sizes: StageSizes, kept: float) -> tuple[float, float, float]:
    """Activations, logits and temporary bytes at the peak; `kept` is one micro-batch's."""
    if sizes.layout.zero == 3:
        return _sharded(sizes, kept)
    layout = sizes.layout
    deep = alive(layout, sizes.stage)
    at_loss = LOSS_ROWS * sizes.whole_row  # gathered, where the sequence is split
    activations, temporary = deep * kept, at_loss if sizes.is_last else _working(sizes)
    for more in (_messages, _deferred):
        if layout.pipeline > 1:
            kept_more, passing_more = more(sizes, _held(layout, sizes.stage))
            activations, temporary = activations + kept_more, temporary + passing_more
    if not sizes.is_last:
        return activations, 0.0, temporary
    losses = deep if layout.schedule == "gpipe" else 1.0
    return activations, losses * (sizes.logits + at_loss), temporary + _low_loss(sizes)


def _held(layout: Layout, stage: int) -> Held:
    return at_peak(layout.schedule, layout.pipeline, stage, layout.micro_batches, layout.virtual)


def _working(sizes: StageSizes) -> float:
    """In a layer's MLP. In bf16 a product for a matrix is made in 16 bits, and added in 32."""
    wide = MLP_WIDTHS * sizes.whole_row / sizes.layout.tensor
    if sizes.layout.precision != "bf16":
        return sizes.row + wide
    matrix = sizes.model.ffn * sizes.model.hidden / sizes.layout.tensor
    return sizes.row + max(wide, matrix * (sizes.element + WIDE))


def _messages(sizes: StageSizes, held: Held) -> tuple[float, float]:
    """Inputs lie in the boxes that messages came in, so they count as temporary, and not among the
    activations that were kept."""
    boxes = held.inputs + held.returned + held.expected
    return (held.sent - held.inputs) * sizes.row, boxes * sizes.row


def _put_off(sizes: StageSizes) -> tuple[float, float]:
    """Inputs and gradients of one micro-batch whose weights' half waits. The last stage keeps the
    gradient of the logits, which in float32 lies where these were."""
    inputs, gradients = (
        (whole + cut / sizes.layout.tensor) * sizes.layers * sizes.whole_row
        for whole, cut in (DEFERRED_INPUTS, DEFERRED_GRADIENTS)
    )
    gradients += DEFERRED_ENDS[sizes.is_last] * sizes.row
    if not sizes.is_last:
        return inputs, gradients
    if sizes.element == WIDE:
        return inputs + sizes.logits, gradients
    return inputs, gradients + sizes.logits / 2


def _deferred(sizes: StageSizes, held: Held) -> tuple[float, float]:
    """What zero-bubble keeps of micro-batches whose weights wait, and of the layer at work: in the
    topmost one, and on the last stage at the loss, or in float32 after it."""
    if sizes.layout.schedule != "zero-bubble":
        return 0.0, 0.0
    inputs, gradients = _put_off(sizes)
    at_work = MLP_WIDTHS * sizes.whole_row / sizes.layout.tensor
    if sizes.is_last and sizes.element == WIDE:
        at_work += _working(sizes) + sizes.row - LOSS_ROWS * sizes.whole_row
    elif sizes.is_last:
        at_work = 0.0
    return held.deferred * inputs, held.deferred * gradients + at_work


def weights_at_last(sizes: StageSizes) -> tuple[float, float, float]:
    """The other time at which zero-bubble may hold most: when the last stage makes the word
    matrix's gradient in bf16, which is then added in float32, and the backward pass before has put
    off its weights too."""
    layout = sizes.layout
    if layout.schedule != "zero-bubble" or layout.precision != "bf16" or not sizes.is_last:
        return 0.0, 0.0, 0.0
    held = _held(layout, sizes.stage)
    inputs, gradients = _put_off(sizes)
    waiting = held.deferred + 1
    product = _word_matrix(sizes) * (sizes.element + WIDE)
    return waiting * inputs, 0.0, waiting * gradients + product + _messages(sizes, held)[1]


def _low_loss(sizes: StageSizes) -> float:
    """In half precision the gradient of the logits is copied to 16 bits. In bf16 the product for
    the word matrix is made in 16 bits, and added in 32; fp16 keeps its gradients in 16 bits, so
    that the product adds by itself, and zero-bubble makes it later."""
    if sizes.element == WIDE:
        return 0.0
    copied = sizes.logits / 2 - sizes.row
    if sizes.layout.precision == "fp16" or sizes.layout.schedule == "zero-bubble":
        return copied
    return copied + _word_matrix(sizes) * (sizes.element + WIDE)


def _sharded(sizes: StageSizes, kept: float) -> tuple[float, float, float]:
    """FSDP: embedding and final norm stay gathered until backward, the topmost layer is gathered
    for it. The loss is PyTorch's, which keeps its softmax and makes two more of that size; that of
    a tensor group is the program's own, but its word matrix gets a gradient of its whole size."""
    model, layout = sizes.model, sizes.layout
    root = (sizes.held - layer(model, layout.tensor).total * model.layers) * sizes.element
    gathered = layer(model, layout.tensor).total * sizes.element
    summed = sizes.held * WIDE if layout.micro_batches > 1 else 0
    at_loss = 2 * sizes.logits
    if layout.tensor > 1:
        at_loss = _word_matrix(sizes) * sizes.element + LOSS_ROWS * sizes.whole_row
    return kept + root, sizes.logits + sizes.row, at_loss + gathered + summed


def _word_matrix(sizes: StageSizes) -> float:
    """Its elements on this rank."""
    rows = sizes.model.padded_vocabulary(sizes.layout.tensor) // sizes.layout.tensor
    return float(rows * sizes.model.hidden)


def stepping(sizes: StageSizes) -> float:
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
