"""The layers by hand compute the same as PyTorch's own tools."""

from __future__ import annotations

from twins import checkpoint, context_parallel, fully_sharded, pipeline, tensor_parallel


def test_an_mlp_cut_by_dtensor_equals_the_one_by_hand(worlds):
    assert max(worlds(2).run(tensor_parallel.largest_difference)) <= 1e-15


def test_an_mlp_sharded_by_fsdp2_equals_the_one_by_hand(worlds):
    assert max(worlds(2).run(fully_sharded.largest_difference)) <= 1e-14


def test_a_pipeline_of_torch_equals_the_one_by_hand(worlds):
    assert max(worlds(4).run(pipeline.largest_difference)) <= 1e-15


def test_ranks_that_cut_a_matrix_in_another_way_read_both_checkpoints(worlds, tmp_path):
    assert worlds(4).run(checkpoint.both_are_right, tmp_path) == [True] * 4


def test_torchs_ring_attention_equals_the_one_by_hand_and_the_gather(worlds):
    assert max(worlds(4).run(context_parallel.largest_difference)) <= 1e-13
