"""A step that is recorded and repeated trains as any other; where it cannot be, it says so."""

from __future__ import annotations

import pytest
import torch
from one_forecast import repeated_steps

from process.errors import ArgumentsError
from weather.configuration import parse
from weather.recorded_step import WARM_UP_STEPS, check_possible

SMALL = ["--train-samples", "0", "--valid-samples", "0", "--embed-dim", "32", "--depth", "2"]
RECORDED = ["--cuda-graphs", "true"]


def test_repeated_steps_lose_what_computed_ones_do(worlds, weather):
    flags, count = ["--data", str(weather), *SMALL], WARM_UP_STEPS + 4
    plain, repeated = (
        worlds(1).run(repeated_steps, flags, count, recorded)[0] for recorded in (False, True)
    )
    assert repeated["losses"] == pytest.approx(plain["losses"], rel=1e-6)
    assert len(set(repeated["losses"])) == count, "each step has its own batch and its own loss"
    assert repeated["recordings"] == 1


@pytest.mark.parametrize(
    ("flags", "device", "ranks", "told"),
    [
        ([], "cpu", 1, "on a GPU, and the device of this rank is cpu"),
        ([], "cuda", 2, "is for one rank, and there are 2"),
        (["--amp-mode", "fp16"], "cuda", 1, "which no graph can; take bf16"),
        (["--torch-compile", "true"], "cuda", 1, "give one of the two"),
    ],
)
def test_where_no_graph_can_be_recorded_a_sentence_says_why(flags, device, ranks, told):
    with pytest.raises(ArgumentsError, match=told):
        check_possible(parse([*RECORDED, *flags], ranks), torch.device(device), ranks)


def test_one_gpu_with_bf16_is_all_it_asks_for():
    check_possible(parse([*RECORDED, "--amp-mode", "bf16"], 1), torch.device("cuda"), 1)
