"""Models and layouts refuse impossible values, and say what would work."""

import pytest

from course_lib.plan import PRESETS, Layout, Model, Patches, PlanError, preset
from course_lib.plan.shapes.ranks import devices_of_group_per_node, groups


def test_the_error_of_a_batch_names_value_rule_and_cure():
    with pytest.raises(PlanError) as refused:
        Layout(data=4, micro_batch=2, global_batch=6)
    assert str(refused.value) == (
        "global_batch 6 is not a multiple of micro_batch 2 × data 4 = 8; use 8 or 16"
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"tensor": 0}, "tensor 0 is too small; use 1 or more"),
        ({"data": 2.0}, "data = 2.0 has a decimal point; write 2 "),
        ({"pipeline": True}, "pipeline = True is not a whole number"),
        ({"zero": 4}, "zero stage 4 is unknown; use 0, 1, 2 or 3"),
        ({"precision": "fp4"}, "use one of fp32, fp16, bf16, fp8, mxfp8, nvfp4"),
        ({"recompute": "all"}, "use one of none, selective, full"),
        ({"sequence_parallel": True}, "use tensor 2 or more"),
        ({"virtual": 2}, "needs pipeline ≥ 2 and virtual ≥ 2"),
        ({"pipeline": 4, "schedule": "interleaved", "global_batch": 4}, "virtual 2"),
        ({"pipeline": 4, "virtual": 2, "global_batch": 6}, "use 4 or 8"),
        ({"pipeline": 2, "virtual": 2, "schedule": "gpipe", "global_batch": 4}, "virtual 1"),
        ({"data": 2, "order": "tp-pp"}, 'use "tp-pp-dp"'),
        ({"order": "tp-tp-dp-pp"}, "names tp twice"),
        ({"order": "dp,tp"}, "is unknown; use one of tp, cp, ep, dp, pp"),
        ({"data": 2, "global_batch": 1}, "use 2 or 4"),
    ],
)
def test_a_wrong_layout_is_refused_with_a_cure(values, text):
    with pytest.raises(PlanError) as refused:
        Layout(**values)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(tensor=3), "tensor 3 does not divide heads 32; use 2 or 4"),
        (Layout(pipeline=5), "does not divide layers 12; use 4 or 6"),
        (Layout(context=3), "does not divide sequence 1024; use 4 or 8"),
    ],
)
def test_a_layout_that_the_model_cannot_have_is_refused_with_a_cure(layout, text):
    with pytest.raises(PlanError) as refused:
        layout.check(preset("lab"))
    assert text in str(refused.value)


def test_the_devices_must_be_the_product():
    with pytest.raises(PlanError, match="= 4 devices, and there are 8; use data 4"):
        Layout(data=2, tensor=2).check(preset("lab"), devices=8)
    with pytest.raises(PlanError, match="that divides 4"):
        Layout(tensor=8).check(preset("lab"), devices=4)


def test_micro_batches_and_devices_follow():
    layout = Layout(data=2, tensor=2, pipeline=2, micro_batch=4, global_batch=64)
    assert (layout.devices, layout.micro_batches) == (8, 8)
    assert Layout(data=4, micro_batch=2).global_batch == 8
    assert Layout(pipeline=2, virtual=2, global_batch=4).but(virtual=1).schedule == "1f1b"


def test_a_shape_fills_in_what_is_usual():
    model = Model("m", 2, 768, 12, 128)
    assert (model.kv_groups, model.ffn, model.head_size) == (12, 3072, 64)
    assert model.but(hidden=1536).ffn == 6144
    assert Model("m", 2, 4096, 32, 128, activation="swiglu").ffn == 11008


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"heads": 5}, "heads 5 does not divide hidden 768; use 4 or 6"),
        ({"kv_groups": 5}, "kv_groups 5 does not divide heads 12; use 4 or 6"),
        ({"positions": "sine"}, "use one of learned, rotary"),
        ({"vocabulary": 0}, "vocabulary 0 is too small"),
    ],
)
def test_a_wrong_shape_is_refused_with_a_cure(values, text):
    shape = {"name": "m", "layers": 2, "hidden": 768, "heads": 12, "sequence": 128} | values
    with pytest.raises(PlanError) as refused:
        Model(**shape)
    assert text in str(refused.value)


def test_the_vocabulary_is_padded_to_128_rows_per_tensor_rank():
    model = preset("lab")
    assert [model.padded_vocabulary(tensor) for tensor in (1, 2, 8)] == [50304, 50432, 51200]


def test_an_image_becomes_a_sequence_of_patches():
    model = Model("v", 2, 64, 4, 1, patches=Patches(64, 128, 16, 3, 3))
    assert (model.sequence, model.vocabulary, model.causal) == (32, 0, False)
    with pytest.raises(PlanError, match="patch size 7 does not divide image height 64"):
        Patches(64, 128, 7, 3, 3)


def test_an_unknown_preset_names_those_that_exist():
    with pytest.raises(PlanError, match="use one of gpt2, lab, "):
        preset("gpt5")
    assert all(model.name == name for name, model in PRESETS.items())


def test_the_order_string_makes_the_groups():
    layout = Layout(data=2, tensor=4, order="tp-cp-dp")
    assert groups(layout, "tp") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups(layout, "dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups(Layout(context=2, tensor=2, order="cp-tp-dp"), "tp") == [[0, 2], [1, 3]]
    usual = Layout(data=2, tensor=2, pipeline=2)
    assert groups(usual, "pp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups(usual, "dp", "pp") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_groups_fill_nodes_in_rank_order():
    layout = Layout(data=2, tensor=4, pipeline=2)
    shared = [devices_of_group_per_node(layout, word, 8) for word in ("tp", "dp", "pp")]
    assert shared == [4, 2, 1]
