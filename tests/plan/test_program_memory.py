"""Memory of the course's program, counted by the planner and measured by memory traces.

The traced values are of the model "tiny" on the box, in MiB at the peak of one rank of a stage; the
bytes of a run depend on its layout alone, so they are the same on every machine. One run is traced
anew, so that a change of the program shows.
"""

import os
import subprocess
import sys
from functools import partial

import pytest

from course_lib import gpt, read
from course_lib.plan import STACKS, Layout, Model, box, predict, preset
from course_lib.plan.memory.course_messages import at_peak
from course_lib.plan.memory.stage_memory import memory_of_stage
from course_lib.plan.schedules.costs import alive, put_off

MIB = 2**20
EIGHT = {"micro_batch": 1, "global_batch": 8}
PARTS = ("parameters", "gradients", "optimizer", "activations", "temporary")
wide = partial(Layout, precision="fp32")


def zero_bubble(stages):
    return wide(pipeline=stages, schedule="zero-bubble", **EIGHT)


TRACED = {
    # layout, stage, MiB of PARTS
    "one": (wide(micro_batch=4), 0, (7.09, 7.09, 14.18, 32.58, 0.50)),
    "accumulated": (wide(global_batch=4), 0, (7.09, 7.09, 14.18, 8.15, 0.13)),
    "zero 1": (wide(data=4, micro_batch=2, zero=1), 0, (7.09, 8.86, 3.54, 16.29, 0.25)),
    "fsdp": (wide(data=4, micro_batch=2, zero=3), 0, (1.77, 1.77, 3.54, 20.35, 16.76)),
    "full": (wide(micro_batch=4, recompute="full"), 0, (7.09, 7.09, 14.18, 17.53, 0.50)),
    "tensor 2": (wide(tensor=2, micro_batch=4), 0, (3.58, 3.58, 7.16, 18.6, 0.50)),
    "first of 2": (wide(pipeline=2, **EIGHT), 0, (5.58, 5.58, 11.15, 4.16, 0.38)),
    "last of 2": (wide(pipeline=2, **EIGHT), 1, (5.51, 5.51, 11.03, 6.09, 0.38)),
    "gpipe, last": (
        wide(pipeline=2, schedule="gpipe", **EIGHT), 1, (5.51, 5.51, 11.03, 48.59, 0.63),
    ),
    "interleaved, first": (
        wide(pipeline=2, virtual=2, **EIGHT), 0, (5.58, 5.58, 11.15, 5.29, 0.56),
    ),
    "interleaved, last": (
        wide(pipeline=2, virtual=2, **EIGHT), 1, (5.51, 5.51, 11.03, 7.09, 0.50),
    ),
    "zero-bubble, last": (
        wide(pipeline=2, schedule="zero-bubble", **EIGHT), 1, (5.51, 5.51, 11.03, 10.84, 2.13),
    ),
    "first of 4": (wide(pipeline=4, **EIGHT), 0, (4.82, 4.82, 9.64, 4.28, 0.38)),
    "second of 4": (wide(pipeline=4, **EIGHT), 1, (0.76, 0.76, 1.51, 3.03, 0.81)),
    "third of 4": (wide(pipeline=4, **EIGHT), 2, (0.76, 0.76, 1.51, 2.02, 0.75)),
    "last of 4": (wide(pipeline=4, **EIGHT), 3, (4.76, 4.76, 9.51, 5.08, 0.50)),
    "bf16": (Layout(micro_batch=4), 0, (3.54, 7.09, 21.27, 24.31, 14.13)),
    "bf16, first of 2": (Layout(pipeline=2, **EIGHT), 0, (2.79, 5.58, 16.73, 2.09, 0.44)),
    "bf16, last of 2": (Layout(pipeline=2, **EIGHT), 1, (2.76, 5.51, 16.54, 5.05, 8.16)),
    "fsdp, accumulated": (
        wide(data=2, zero=3, global_batch=8), 0, (3.54, 3.54, 7.09, 12.21, 15.85),
    ),
    "fsdp, tensor 2": (
        wide(data=2, tensor=2, zero=3, micro_batch=2), 0, (1.79, 1.79, 3.58, 11.35, 2.63),
    ),
    "tensor 2, last of 2": (
        wide(tensor=2, pipeline=2, **EIGHT), 1, (2.76, 2.76, 5.52, 3.34, 0.38),
    ),
    "zero-bubble, first of 4": (zero_bubble(4), 0, (4.82, 4.82, 9.64, 4.28, 0.62)),
    "zero-bubble, second of 4": (zero_bubble(4), 1, (0.76, 0.76, 1.51, 3.46, 1.69)),
    "zero-bubble, third of 4": (zero_bubble(4), 2, (0.76, 0.76, 1.51, 2.90, 2.25)),
    "zero-bubble, last of 4": (zero_bubble(4), 3, (4.76, 4.76, 9.51, 18.27, 3.06)),
    # Their peak is where the optimizer steps: little is kept of a small micro-batch.
    "zero 1, accumulated": (
        wide(data=2, zero=1, global_batch=8), 0, (7.09, 10.63, 7.09, 0.01, 10.63),
    ),
}  # fmt: skip


# Their activations are next to nothing: two percent of them would be less than one message.
NEARLY_TRACED = {
    "full, first of 2": (
        wide(pipeline=2, recompute="full", **EIGHT), 0, (5.58, 5.58, 11.15, 1.35, 0.38),
    ),
    "zero 1, last of 2": (
        wide(data=2, pipeline=2, zero=1, global_batch=16), 1, (5.51, 8.27, 5.51, 0.02, 8.27),
    ),
    "fp16, first of 2": (
        Layout(pipeline=2, precision="fp16", **EIGHT), 0, (2.79, 2.79, 16.73, 0.02, 5.58),
    ),
}  # fmt: skip


def assert_as_traced(model, layout, stage, traced, nearly_mib=0.01):
    memory = memory_of_stage(model, layout, STACKS["course"], stage)
    for (part, size), mib in zip(memory.traced.items(), traced, strict=True):
        assert size / MIB == pytest.approx(mib, rel=0.02, abs=nearly_mib), part


@pytest.mark.parametrize("name", TRACED)
def test_every_part_is_within_two_percent_of_what_was_traced(name):
    assert_as_traced(preset("tiny"), *TRACED[name])


@pytest.mark.parametrize("name", NEARLY_TRACED)
def test_parts_of_which_little_is_left_are_within_a_hundredth_of_the_whole(name):
    layout, stage, traced = NEARLY_TRACED[name]
    assert_as_traced(preset("tiny"), layout, stage, traced, nearly_mib=0.01 * sum(traced))


LLAMA = {
    "positions": "rotary", "activation": "swiglu", "norm": "rmsnorm", "bias": False,
    "kv_groups": 2, "tied": False,
}  # fmt: skip
RMS = {"norm": "rmsnorm", "bias": False, "kv_groups": 2, "tied": False}
OF_OTHER_MODELS = {
    # what differs from a GPT of this size, layout, stage, MiB of PARTS
    "rotary": ({"positions": "rotary"}, wide(micro_batch=4), 0, (3.53, 3.53, 7.05, 20.58, 0.5)),
    "rms": (
        {"norm": "rmsnorm", "bias": False}, wide(micro_batch=4), 0, (3.57, 3.57, 7.13, 20.81, 0.5),
    ),
    "groups": ({"kv_groups": 2}, wide(micro_batch=4), 0, (3.34, 3.34, 6.67, 18.58, 0.5)),
    "swiglu, first of 2": (
        {"activation": "swiglu"}, wide(pipeline=2, **EIGHT), 0, (2.58, 2.58, 5.16, 5.91, 0.88),
    ),
    "swiglu, last of 2": (
        {"activation": "swiglu"}, wide(pipeline=2, **EIGHT), 1, (2.52, 2.52, 5.04, 3.59, 0.38),
    ),
    "untied, full": (
        {"tied": False}, wide(micro_batch=4, recompute="full"), 0, (4.09, 4.09, 8.18, 4.79, 1.25),
    ),
    "llama": (LLAMA, wide(micro_batch=4), 0, (4.75, 4.75, 9.51, 29.31, 0.5)),
    "llama, full": (
        LLAMA, wide(micro_batch=4, recompute="full"), 0, (4.75, 4.75, 9.51, 6.42, 3.25),
    ),
    "llama, tensor 2": (LLAMA, wide(tensor=2, micro_batch=2), 0, (2.38, 2.38, 4.76, 9.03, 0.25)),
    "rms in bf16, second of 4": (
        RMS, Layout(pipeline=4, global_batch=4), 1, (0.34, 0.69, 2.07, 2.17, 0.56),
    ),
    "rms in bf16, last of 4": (
        RMS, Layout(pipeline=4, global_batch=4), 3, (0.59, 1.19, 3.57, 1.36, 1.16),
    ),
    "rms in fp16, full, second of 4": (
        RMS, Layout(pipeline=4, precision="fp16", recompute="full", global_batch=1), 1,
        (0.34, 0.34, 2.07, 0.73, 0.19),
    ),
    "llama, first of 2": (LLAMA, wide(pipeline=2, **EIGHT), 0, (2.38, 2.38, 4.75, 6.53, 0.88)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_OTHER_MODELS)
def test_so_it_is_with_the_parts_that_models_have_had_since_gpt(name):
    """The vocabulary is small, so that a layer may need more memory than the loss."""
    changes, *traced = OF_OTHER_MODELS[name]
    size = {"layers": 4, "hidden": 128, "heads": 4, "sequence": 128, "vocabulary": 1000}
    assert_as_traced(Model(name, **size, **changes), *traced)


@pytest.fixture(scope="module", params=["gpipe, last", "last of 2", "interleaved, last"])
def traced_now(request, repository, tmp_path_factory):
    """Return the name in `TRACED`, the recipe and the memory trace of a run on two pipeline stages:
    GPipe, 1F1B whose last stage keeps some messages, and chunks with messages in all four
    directions."""
    layout = TRACED[request.param][0]
    changes = {"virtual": layout.virtual, "schedule": layout.schedule}
    recipe = gpt.recipe(
        "now", memory=(2, 3), iterations=4, gpus_per_node=2, pipeline=2, **changes, **EIGHT
    )
    folder, program = tmp_path_factory.mktemp("run"), repository / "code" / recipe.program
    places = {"{run}": str(folder), "--data-path": "--mock-data"}
    flags = [flag for flag in recipe.arguments if not flag.startswith("{data}")]
    for word, place in places.items():
        flags = [flag.replace(word, place) for flag in flags]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *launcher, str(program), *flags],
        env={**os.environ, "COURSE_RUN_DIR": str(folder)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return request.param, recipe, read.memory(folder)


def assert_holds(part, planned, measured):
    assert planned == pytest.approx(measured, rel=0.02, abs=0.01 * MIB), part


@pytest.mark.parametrize("stage", [0, 1])
def test_a_run_of_today_holds_what_the_planner_counts(traced_now, stage):
    _, recipe, memory = traced_now
    planned = memory_of_stage(gpt.model(recipe), gpt.layout(recipe), STACKS["course"], stage).traced
    (timeline,) = (line for line in memory.ranks if line.rank == stage)
    assert set(timeline.peak_composition) == set(planned)
    for part, size in timeline.peak_composition.items():
        assert_holds(part, planned[part], size)


def test_the_kept_values_are_those_that_a_run_of_today_traces(traced_now):
    name, _, memory = traced_now
    (timeline,) = (line for line in memory.ranks if line.rank == 1)
    for part, mib in zip(PARTS, TRACED[name][2], strict=True):
        assert_holds(part, mib * MIB, timeline.peak_composition[part])


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
@pytest.mark.parametrize("micro_batches", [4, 8, 12])
@pytest.mark.parametrize("stages", [2, 4])
def test_messages_are_counted_on_the_stage_with_most_micro_batches(schedule, micro_batches, stages):
    chunks = 2 if schedule == "interleaved" else 1
    layout = Layout(pipeline=stages, virtual=chunks, schedule=schedule, global_batch=micro_batches)
    for stage in range(stages):
        held = at_peak(schedule, stages, stage, micro_batches, chunks)
        at_the_end = stage == stages - 1 and chunks > 1  # its peak is at a loss, maybe of fewer
        assert held.pieces == chunks * alive(layout, stage) or at_the_end
        assert held.deferred == put_off(layout, stage)
        assert held.returned <= stages, "as many gradients as stages may be under way"
        assert held.returned == 0 or stage > 0 or chunks > 1, "the first stage returns none"


def test_a_rank_of_the_box_has_no_driver_to_make_room_for():
    where = box(device_memory_gib=0.05)
    estimate = predict(preset("tiny"), Layout(micro_batch=1, precision="fp32"), where, "course")
    assert estimate.device_gib == pytest.approx(estimate.allocated_gib)
    assert estimate.fits
    large = Layout(micro_batch=3, global_batch=3, precision="fp32")
    assert not predict(preset("tiny"), large, where, "course").fits


def test_the_parts_of_a_trace_add_up_to_what_is_allocated():
    memory = memory_of_stage(preset("tiny"), Layout(), STACKS["course"], 0)
    assert sum(memory.traced.values()) == memory.allocated
