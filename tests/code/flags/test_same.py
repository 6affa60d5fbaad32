"""Ranks that were started with different command lines do not train together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch.distributed as dist

from flags import same
from flags.arguments import parse_arguments
from process.errors import ArgumentsError


@pytest.fixture
def check(monkeypatch):
    """`check(rank, text)` compares a rank's command line: first of rank 0, then of rank 1."""
    store = dist.HashStore()

    def check_rank(rank, text):
        args = parse_arguments(text.split())
        args.padded_vocab_size = 128
        meeting = SimpleNamespace(rank=rank, size=2, shared=store)
        monkeypatch.setattr(same, "PEERS", [meeting])
        same.check_same(args)

    return check_rank


@pytest.mark.parametrize(
    "flag",
    ["--lr 0.5", "--seed 9", "--num-layers 4", "--log-interval 1", "--bf16", "--save there",
     "--rank-order cp-tp-dp-pp", "--global-batch-size 8"],
)  # fmt: skip
def test_another_flag_is_told_with_both_values(check, flag):
    check(0, "")
    with pytest.raises(ArgumentsError) as error:
        check(1, flag)
    # --bf16 and a few others imply more, which differs as well.
    problems = [p for p in error.value.problems if p.startswith(f"{flag.split()[0]} is ")]
    assert len(problems) == 1
    assert "on rank 0; start all ranks with the same command line" in problems[0]


def test_files_may_lie_elsewhere_on_each_node(check):
    check(0, "--data-path /here/x --save /here --lr 1e-3 --tensorboard-dir /here/t")
    check(1, "--data-path /there/x --save /there --lr .001 --tensorboard-dir /there/t")
