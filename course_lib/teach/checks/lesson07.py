"""Lesson 07, tensor parallelism."""

from __future__ import annotations

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.lesson07_gated import ex07_gated
from course_lib.teach.slips import Quantity

__all__ = ["ex07_gated", "ex07_sent"]

LAYERS, TENSOR, ROWS, CHANNELS, BYTES_EACH, A_LAYER = 80, 8, 4096, 8192, 2, 4
FINE = 0.005
"""Less than the sums of embedding and output, which are two of 322."""


def ex07_sent(answer: object) -> None:
    """Gigabytes that tensor parallelism sends for a sample."""
    rows = ROWS * CHANNELS * BYTES_EACH
    right = LAYERS * A_LAYER * rows * 2 * (TENSOR - 1) / TENSOR / 1e9
    wanted = Quantity(
        right=right,
        unit="GB",
        fine=FINE,
        ring=TENSOR,
        bytes_each=BYTES_EACH,
        known={"what one layer hands to the next": rows / 1e9},
        counts={"layers": LAYERS, "all-reduces of a layer": A_LAYER},
        own=(
            (
                right / 2,
                "That is half: of the forward pass alone, the ring gone round once, or one byte "
                "for each number.",
            ),
            (
                right / A_LAYER,
                "That counts one all-reduce in a layer. How many are there, forward and backward?",
            ),
            (
                LAYERS * rows / 1e9,
                "That is one sum in a layer, sent once. How many sums has a layer, forward and "
                "backward, and what does the ring make of each?",
            ),
            (
                right * 96 / LAYERS,
                f"That is for 96 layers, as GPT-3 has them. This model has {LAYERS}.",
            ),
            (
                LAYERS * rows * A_LAYER / 2 / 1e9,
                "That is the forward pass alone, and each sum sent once. What does the ring make "
                "of it, and what comes backward?",
            ),
            (
                right * 6 / A_LAYER,
                "That counts six sums in a layer. Not each matrix needs one: how many are there?",
            ),
            (
                right * (LAYERS * A_LAYER + 2) / (LAYERS * A_LAYER),
                "You counted the sums of the embedding and of the output as well. Those of the "
                "layers are asked for.",
            ),
            (right * 16, "That is for 16 samples. One is asked for."),
            (right / ROWS, f"That is one token. A sample has {ROWS}."),
            (right / CHANNELS, f"You left out the width: a token has {CHANNELS} numbers."),
            (right * 4, "Between layers go h numbers for a token; 4 h stay inside the MLP."),
            (
                right / TENSOR,
                "You divided by the devices. A sum has its full size on every one of them: the "
                "products are cut, not what comes out.",
            ),
        ),
    )
    with Checklist("07.2") as check:
        check.amount(
            check.number(answer, "gigabytes_sent"),
            wanted,
            "each device sends that much for a sample",
            hint="How many bytes does one layer hand to the next? How often is that summed, and "
            "what does the ring make of it?",
        )
