"""A step is recorded only if a graph can hold it; benchmarks/one_device.py records one."""

from __future__ import annotations

import pytest
import torch

from process.errors import ArgumentsError
from weather.configuration import parse
from weather.recorded_step import check_possible

RECORDED = ["--cuda-graphs", "true"]


@pytest.mark.parametrize(
    ("flags", "device", "ranks", "told"),
    [
        ([], "cpu", 1, "needs a GPU, and this rank has cpu"),
        ([], "cuda", 2, "needs one rank, and this run has 2"),
        (["--amp-mode", "fp16"], "cuda", 1, "use bf16"),
        (["--torch-compile", "true"], "cuda", 1, "choose one of --cuda-graphs true"),
    ],
)
def test_where_no_graph_can_be_recorded_a_sentence_says_why(flags, device, ranks, told):
    with pytest.raises(ArgumentsError, match=told):
        check_possible(parse([*RECORDED, *flags], ranks), torch.device(device), ranks)
