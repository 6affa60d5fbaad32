"""What the course's program holds, counted by the planner and as its memory traces showed it.

The traced values are of the model "tiny" on the box, in MiB at the peak of one rank of a stage; the
bytes of a run depend on its layout alone, so they are the same on every machine.
"""

import pytest

from course_lib.plan import STACKS, Layout, box, largest_micro_batch, predict, preset
from course_lib.plan.memory.stage_memory import memory_of_stage

MIB = 2**20
EIGHT = {"micro_batch": 1, "global_batch": 8}
TRACED = {
    # layout, stage: parameters, gradients, optimizer, activations, temporary
    "one": (Layout(micro_batch=4), 0, (7.09, 7.09, 14.18, 32.58, 0.50)),
    "accumulated": (Layout(global_batch=4), 0, (7.09, 7.09, 14.18, 8.15, 0.13)),
    "zero 1": (Layout(data=4, micro_batch=2, zero=1), 0, (7.09, 8.86, 3.54, 16.29, 0.25)),
    "fsdp": (Layout(data=4, micro_batch=2, zero=3), 0, (1.77, 1.77, 3.54, 20.35, 16.76)),
    "full": (Layout(micro_batch=4, recompute="full"), 0, (7.09, 7.09, 14.18, 17.53, 0.50)),
    "tensor 2": (Layout(tensor=2, micro_batch=4), 0, (3.58, 3.58, 7.16, 18.6, 0.50)),
    "first of 2": (Layout(pipeline=2, **EIGHT), 0, (5.58, 5.58, 11.15, 4.53, 0.38)),
    "last of 2": (Layout(pipeline=2, **EIGHT), 1, (5.51, 5.51, 11.03, 6.09, 0.63)),
    "gpipe, last": (
        Layout(pipeline=2, schedule="gpipe", **EIGHT), 1, (5.51, 5.51, 11.03, 48.59, 0.63),
    ),
    "interleaved, first": (
        Layout(pipeline=2, virtual=2, **EIGHT), 0, (5.58, 5.58, 11.15, 5.91, 0.88),
    ),
    "interleaved, last": (
        Layout(pipeline=2, virtual=2, **EIGHT), 1, (5.51, 5.51, 11.03, 7.47, 1.19),
    ),
    "zero-bubble, last": (
        Layout(pipeline=2, schedule="zero-bubble", **EIGHT), 1, (5.51, 5.51, 11.03, 10.84, 2.38),
    ),
    "second of 4": (Layout(pipeline=4, **EIGHT), 1, (0.76, 0.76, 1.51, 3.34, 0.88)),
    "bf16": (Layout(micro_batch=4, precision="bf16"), 0, (3.54, 7.09, 21.27, 24.31, 14.13)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
def test_every_part_is_within_two_percent_of_what_was_traced(name):
    layout, stage, traced = TRACED[name]
    precision = layout.precision if name == "bf16" else "fp32"
    memory = memory_of_stage(
        preset("tiny"), layout.but(precision=precision), STACKS["course"], stage
    )
    for (part, size), mib in zip(memory.traced.items(), traced, strict=True):
        assert size / MIB == pytest.approx(mib, rel=0.02, abs=0.01), part


def test_a_rank_of_the_box_has_no_driver_to_make_room_for():
    where = box(device_memory_gib=0.05)
    estimate = predict(preset("tiny"), Layout(micro_batch=1, precision="fp32"), where, "course")
    assert estimate.device_gib == pytest.approx(estimate.allocated_gib)
    assert estimate.fits
    assert largest_micro_batch(preset("tiny"), Layout(precision="fp32"), where, "course") == 2


def test_the_parts_of_a_trace_add_up_to_what_is_allocated():
    memory = memory_of_stage(preset("tiny"), Layout(), STACKS["course"], 0)
    assert sum(memory.traced.values()) == memory.allocated
