"""Basic buffer sizes of the course's program on one pipeline stage.

`row` is one micro-batch's hidden states on one rank: the size of a message between stages."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import on_rank
from course_lib.plan.shapes.stages import head_rank, layers_of_stages
from course_lib.plan.time.kernels import ELEMENT_BYTES

WIDE = 4  # bytes of a float32
# Rows at the loss: output and input of the last norm, and as many for their gradients.
LOSS_ROWS = 2
# Bytes of activations, of logits and of temporary memory.
Parts = tuple[float, float, float]


@dataclass(frozen=True)
class StageSizes:
    """One stage of one run, with the sizes of which its buffers are multiples."""

    model: Model
    layout: Layout
    stage: int

    @property
    def tokens(self) -> int:
        return self.layout.micro_batch * self.model.sequence // self.layout.context

    @property
    def element(self) -> int:
        return ELEMENT_BYTES[self.layout.precision]

    def bytes(self, widths: float) -> float:
        """Return the bytes of `widths` numbers for each token."""
        return float(self.tokens * widths * self.element)

    @property
    def whole_row(self) -> float:
        return self.bytes(self.model.hidden)

    @property
    def row(self) -> float:
        return self.whole_row / (self.layout.tensor if self.layout.sequence_parallel else 1)

    @property
    def is_last(self) -> bool:
        return self.stage == head_rank(self.model, self.layout)

    @property
    def vocabulary(self) -> int:
        return self.model.padded_vocabulary(self.layout.tensor) // self.layout.tensor

    @property
    def logits(self) -> float:
        """Return the bytes of the logits: one float32 copy, which the softmax overwrites."""
        return float(self.tokens * self.vocabulary * WIDE)

    @property
    def loss(self) -> float:
        """Return the bytes that a micro-batch's loss and last norm keep for backward."""
        return self.logits + (LOSS_ROWS + rows_of_rms(self.model, self.layout)) * self.whole_row

    @property
    def norms_keep_inputs(self) -> bool:
        """Tell whether norms save a layer's input; 16-bit RMSNorm saves a float32 copy instead."""
        return rows_of_rms(self.model, self.layout) <= 1

    @property
    def word_matrix(self) -> float:
        """Return the word matrix's elements on this rank."""
        return float(self.vocabulary * self.model.hidden)

    @property
    def wide(self) -> float:
        """Return bytes of the gradients inside an MLP, for SwiGLU's product and its two factors."""
        many = 3 if self.model.activation == "swiglu" else 1
        return many * self.bytes(self.model.ffn) / self.layout.tensor

    @property
    def working(self) -> float:
        """Return temporary bytes of a layer's MLP in backward: the incoming gradient and the
        MLP-wide ones. In bf16 a matrix's gradient is computed in 16 bits and added in 32."""
        if self.layout.precision != "bf16":
            return self.row + self.wide
        matrix = self.model.ffn * self.model.hidden / self.layout.tensor
        return self.row + max(self.wide, matrix * (self.element + WIDE))

    @property
    def held(self) -> int:
        return on_rank(self.model, self.layout, self.stage).total

    @property
    def layers(self) -> int:
        return layers_of_stages(self.model, self.layout)[self.stage]


def widths_more(model: Model, layout: Layout) -> tuple[float, float]:
    """Return numbers per token that a layer keeps beyond fused kernels, whole and split over the
    tensor group. They are RMSNorm's copies, and SwiGLU's gate before and after its function.
    Attention adds rotated queries and keys, or queries copied from between several groups' keys."""
    whole = 2.0 * model.hidden * rows_of_rms(model, layout)
    cut = float(model.ffn) if model.activation == "swiglu" else 0.0
    if layout.recompute == "selective":
        return whole, cut
    turned, parted = model.positions == "rotary", layout.tensor < model.kv_groups < model.heads
    if (turned or parted) and layout.context > 1:
        cut -= model.kv_width  # only the gathered keys and values of all ranks remain
    elif turned:
        cut += model.query_width + model.kv_width / 2
    elif parted:
        cut += model.query_width
    return whole, cut


def rows_of_rms(model: Model, layout: Layout) -> int:
    """Return how many rows an RMSNorm keeps beyond input and output: its quotient, and in 16 bits
    the quotient and the input in float32."""
    if model.norm != "rmsnorm":
        return 0
    return 1 if layout.precision == "fp32" else 3
