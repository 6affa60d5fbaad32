"""A step is recorded only if a graph can hold it; benchmarks/one_device.py records one."""

from __future__ import annotations

import pytest
import torch

from process.errors import ArgumentsError
from weather.configuration import parse
from weather.recorded_step import check_possible

RECORDED = ["--cuda-graphs", "true"]


@pytest.mark.parametrize(
    ("flags", "device", "ranks"),
    [
        ([], "cpu", 1),
        ([], "cuda", 2),
        (["--amp-mode", "fp16"], "cuda", 1),
        (["--torch-compile", "true"], "cuda", 1),
    ],
)
def test_where_no_graph_can_be_recorded_a_sentence_says_why(flags, device, ranks):
    with pytest.raises(ArgumentsError, match="needs one rank with a GPU, and neither"):
        check_possible(parse([*RECORDED, *flags], ranks), torch.device(device), ranks)
