"""Memory: the published formulas exactly, published measurements closely."""

from dataclasses import replace

import pytest

from course_lib.plan import Layout, Model, preset
from course_lib.plan.code_bases import STACKS, Stack
from course_lib.plan.memory.stage_memory import (
    layer_activations,
    memory_of_stage,
    memory_of_stages,
    peak_stage,
)
from course_lib.plan.schedules.costs import alive

GIB = 2**30
PAPER = Stack("arXiv 2205.05198", dropout=True)
B22 = Model("22B", 48, 6144, 64, 2048, 51200)


@pytest.mark.parametrize(
    ("changes", "formula"),
    [
        ({}, lambda s, b, h, a, t: s * b * h * (10 + 24 / t + 5 * a * s / (h * t))),
        ({"sequence_parallel": True}, lambda s, b, h, a, t: s * b * h / t * (34 + 5 * a * s / h)),
        ({"recompute": "selective"}, lambda s, b, h, a, t: s * b * h * (10 + 24 / t)),
        (
            {"sequence_parallel": True, "recompute": "selective"},
            lambda s, b, h, a, t: 34 * s * b * h / t,
        ),
    ],
    ids=["tensor", "sequence", "selective", "both"],
)
def test_a_layer_keeps_what_table_2_of_the_paper_says(changes, formula):
    layout = Layout(tensor=8, micro_batch=4, flash=False, precision="fp16", **changes)
    expected = formula(2048, 4, 6144, 64, 8)
    assert layer_activations(B22, layout, PAPER) == pytest.approx(expected, rel=1e-12)


def test_the_published_activations_of_22_b_and_175_b():
    layout = Layout(tensor=8, micro_batch=4, flash=False, precision="fp16")
    assert 48 * layer_activations(B22, layout, PAPER) / GIB == 59.25
    both = layout.but(sequence_parallel=True, recompute="selective")
    assert 48 * layer_activations(B22, both, PAPER) / GIB == 9.5625
    # 175 B: 96 layers on 8 stages, 3 chunks each: the first stage keeps 1 + 7/24 of its share.
    gpt3 = preset("175b")
    piped = both.but(micro_batch=1, pipeline=8, virtual=3, global_batch=64)
    kept = alive(piped, 0) * 12 * layer_activations(gpt3, piped, PAPER)
    assert kept / GIB == pytest.approx(12.3515625, rel=0.05)


def test_full_recomputation_keeps_the_entry_of_each_layer():
    model, stack = preset("lab"), replace(PAPER, dropout=False)
    layout = Layout(micro_batch=2, recompute="full", flash=False)
    entry = 2 * 2 * model.sequence * model.hidden
    assert memory_of_stage(model, layout, stack, 0).activations == 12 * entry


def test_a_recomputed_layer_counts_only_if_it_needs_more_than_the_logits():
    layout = Layout(micro_batch=2, flash=False)
    again = layout.but(recompute="full")
    for rows, expects_more in ((50257, False), (128, True)):
        model = preset("lab").but(vocabulary=rows)
        found, plain = (memory_of_stage(model, one, PAPER, 0) for one in (again, layout))
        more = layer_activations(model, layout, PAPER) - found.logits
        assert (more > 0) == expects_more
        assert found.temporary - plain.temporary == pytest.approx(max(0, more))


TINY = [
    # changes, stage, then measured on the box: parameters, gradients, optimizer, activations
    ({}, 0, (7433216, 7433216, 14866440, 17079296)),
    ({"recompute": "full"}, 0, (7433216, 7433216, 14866440, 9202432)),
    ({"recompute": "full", "recompute_layers": 2}, 0, (7433216, 7433216, 14866440, 8930176)),
    ({"tensor": 2}, 0, (3756032, 3887104, 7512072, 10003968)),
    ({"pipeline": 2, "global_batch": 8}, 1, (5781504, 5781504, 11563020, 12749824)),
    ({"data": 2, "zero": 1}, 0, (7433216, 11149824, 7433220, 17079296)),
    ({"context": 2}, 0, (7433216, 7433216, 14866440, 10309120)),
]


@pytest.mark.parametrize(("changes", "stage", "measured"), TINY)
def test_the_course_s_program_keeps_what_is_predicted_within_5_percent(changes, stage, measured):
    layout = Layout(micro_batch=2, precision="fp32").but(**{"global_batch": 0} | changes)
    found = memory_of_stage(preset("tiny"), layout, STACKS["course"], stage)
    predicted = (found.parameters, found.gradients, found.optimizer)
    kept = found.activations + found.logits
    assert (*predicted, kept) == pytest.approx(measured, rel=0.05)


def test_zero_divides_state_then_gradients_then_weights_among_data_ranks():
    model = preset("lab")
    parts = [
        memory_of_stage(model, Layout(data=4, zero=stage), PAPER, 0).parts for stage in range(4)
    ]
    state = [part["optimizer"] for part in parts]
    gradients = [part["gradients"] for part in parts]
    weights = [part["parameters"] for part in parts]
    assert state == [state[0], *[state[0] / 4] * 3]
    assert gradients == [*[gradients[0]] * 2, *[gradients[0] / 4] * 2]
    assert weights == [*[weights[0]] * 3, weights[0] / 4]


@pytest.mark.parametrize("stage", [1, 2])
def test_float32_weights_that_stay_gathered_are_16_bit_copies_of_sharded_masters(stage):
    model, fsdp = preset("lab"), STACKS["torchtitan"]
    whole = memory_of_stage(model, Layout(data=4, zero=0), fsdp, 0)
    split = memory_of_stage(model, Layout(data=4, zero=stage), fsdp, 0)
    assert split.parameters == whole.parameters / 2
    assert split.optimizer == (whole.optimizer + whole.parameters) / 4


def test_zero_s_published_example_of_7_5_b_on_64_devices():
    model = Model("7.5B", 36, 4096, 32, 1024, 50257)
    fp16 = replace(PAPER, gradient_bytes=2)
    held = [
        memory_of_stage(model, Layout(data=64, zero=stage), fp16, 0).parts for stage in range(4)
    ]
    gb = [sum(p[n] for n in ("parameters", "gradients", "optimizer")) / 1e9 for p in held]
    assert gb == pytest.approx([120, 31.4, 16.6, 1.9], rel=0.02)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, [4, 3, 2, 1]),
        ({"schedule": "gpipe"}, [8, 8, 8, 8]),
        ({"global_batch": 2}, [2, 2, 2, 1]),
        ({"virtual": 2}, [11 / 2, 9 / 2, 7 / 2, 5 / 2]),
    ],
)
def test_a_stage_holds_the_micro_batches_of_its_schedule(changes, counts):
    layout = Layout(pipeline=4, global_batch=8).but(**changes)
    assert [alive(layout, stage) for stage in range(4)] == counts


def test_megatron_core_sums_the_gradients_of_fp16_in_two_bytes():
    """In golden values of its tests, fp16 takes two bytes per parameter less than bf16."""
    model, layout = preset("18b"), Layout(tensor=8, pipeline=4)
    fp16, bf16 = (
        memory_of_stage(model, layout.but(precision=precision), STACKS["megatron-core"], 0)
        for precision in ("fp16", "bf16")
    )
    assert fp16.gradients == bf16.gradients / 2
    assert bf16.allocated - fp16.allocated == fp16.gradients == fp16.parameters


def test_a_model_without_dropout_keeps_no_masks():
    layout = Layout(tensor=8, flash=False)
    plain = layer_activations(B22.but(dropout=False), layout, PAPER)
    assert plain == layer_activations(B22, layout, replace(PAPER, dropout=False))
    # Two of the hidden state; one of the scores, with what is left of them.
    masks = 2048 * 6144 * 2 + 2048 * 2048 * 64 / 8 * (1 + 2)
    assert layer_activations(B22, layout, PAPER) - plain == pytest.approx(masks)


def test_activations_of_offloaded_layers_leave_the_device():
    model, layout = preset("llama-70b"), Layout(data=64, zero=3, micro_batch=2, precision="fp8")
    stacks = [replace(STACKS["nemo"], offloaded_share=share) for share in (0.0, 0.5, 1.0)]
    kept = [memory_of_stage(model, layout, stack, 0) for stack in stacks]
    assert kept[1].activations == kept[0].activations / 2
    assert kept[2].activations == 0
    without = kept[0].allocated - kept[0].activations
    assert kept[2].allocated == pytest.approx(without)


def test_parts_add_up_and_the_fullest_stage_is_found():
    model, layout = preset("13b"), Layout(tensor=2, pipeline=4, data=2, global_batch=64, zero=1)
    stages = memory_of_stages(model, layout, STACKS["megatron-core"])
    assert all(sum(stage.parts.values()) == stage.allocated for stage in stages)
    fullest = max(stages, key=lambda stage: stage.allocated)
    assert peak_stage(model, layout, STACKS["megatron-core"]) == fullest


def test_a_measured_run_of_megatron_core_is_met_within_2_percent():
    """gpt3_7b_tp1_pp4_memory_speed, a test of Megatron-LM (golden values at d98e8a64ddf3): peak
    of 60 519 342 080 bytes on the last of 8 ranks."""
    model = Model("7B", 32, 4096, 32, 8192, 131073, kv_groups=8, tied=False)
    layout = Layout(data=2, pipeline=4, virtual=8, global_batch=8, zero=1)
    found = memory_of_stage(model, layout, replace(STACKS["megatron-core"], dropout=True), 3)
    assert found.allocated == pytest.approx(60_519_342_080, rel=0.02)
