"""What the course's program holds, counted by the planner and as its memory traces showed it.

The traced values are of the model "tiny" on the box, in MiB at the peak of one rank of a stage; the
bytes of a run depend on its layout alone, so they are the same on every machine. One run is traced
here and now, lest the program move on and the kept values stay behind.
"""

import os
import subprocess
import sys

import pytest

from course_lib import gpt, read
from course_lib.plan import STACKS, Layout, box, largest_micro_batch, predict, preset
from course_lib.plan.memory.stage_memory import memory_of_stage

MIB = 2**20
EIGHT = {"micro_batch": 1, "global_batch": 8}
PARTS = ("parameters", "gradients", "optimizer", "activations", "temporary")
TRACED = {
    # layout, stage, MiB of PARTS
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


@pytest.fixture(scope="module")
def traced_now(repository, tmp_path_factory):
    """Recipe and memory trace of the program on two pipeline stages, with GPipe."""
    recipe = gpt.recipe(
        "now", memory=(2, 3), iterations=4, gpus_per_node=2, pipeline=2, schedule="gpipe", **EIGHT
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
    return recipe, read.memory(folder)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_run_of_today_holds_what_the_planner_counts(traced_now, stage):
    recipe, memory = traced_now
    planned = memory_of_stage(gpt.model(recipe), gpt.layout(recipe), STACKS["course"], stage).traced
    (timeline,) = (line for line in memory.ranks if line.rank == stage)
    assert set(timeline.peak_composition) == set(planned)
    for part, size in timeline.peak_composition.items():
        assert planned[part] == pytest.approx(size, rel=0.02, abs=0.01 * MIB), part


def test_the_kept_values_are_those_that_a_run_of_today_traces(traced_now):
    _, memory = traced_now
    (timeline,) = (line for line in memory.ranks if line.rank == 1)
    layout, stage, kept = TRACED["gpipe, last"]
    assert (layout.schedule, stage) == ("gpipe", 1)
    found = [timeline.peak_composition[part] / MIB for part in PARTS]
    assert found == pytest.approx(kept, abs=0.01)


def test_a_rank_of_the_box_has_no_driver_to_make_room_for():
    where = box(device_memory_gib=0.05)
    estimate = predict(preset("tiny"), Layout(micro_batch=1, precision="fp32"), where, "course")
    assert estimate.device_gib == pytest.approx(estimate.allocated_gib)
    assert estimate.fits
    assert largest_micro_batch(preset("tiny"), Layout(precision="fp32"), where, "course") == 2


def test_the_parts_of_a_trace_add_up_to_what_is_allocated():
    memory = memory_of_stage(preset("tiny"), Layout(), STACKS["course"], 0)
    assert sum(memory.traced.values()) == memory.allocated
