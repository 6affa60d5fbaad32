"""What PyTorch's own tools compute, the layers by hand compute too."""

from __future__ import annotations

from twins import checkpoint, tensor_parallel


def test_an_mlp_cut_by_dtensor_equals_the_one_by_hand(worlds):
    assert max(worlds(2).run(tensor_parallel.largest_difference)) <= 1e-15


def test_ranks_that_cut_a_matrix_in_another_way_read_both_checkpoints(worlds, tmp_path):
    assert worlds(4).run(checkpoint.both_are_right, tmp_path) == [True] * 4
