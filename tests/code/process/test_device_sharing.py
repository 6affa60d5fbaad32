"""Ranks that share GPUs, and their agreement before they communicate through them."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch.distributed as dist

from process import device_sharing
from process.device_sharing import Seat, agree, decide, follow
from process.errors import MissingRankError, SurroundingsError


def seats(cards):
    """Two ranks on each of two nodes of the box. They share the GPUs of one machine."""
    return [Seat(f"node{1 + n // 2}", f"node{1 + n // 2}", "machine", "cuda", card)
            for n, card in enumerate(cards)]  # fmt: skip


@pytest.mark.parametrize(
    ("cards", "line"),
    [
        ("0000", "note: 4 ranks on 1 GPU: ranks 0, 1, 2, 3 share one."),
        ("0110", "note: 4 ranks on 2 GPUs: ranks 0, 3 share one; ranks 1, 2 share one."),
        ("0123", ""),
    ],
)
def test_no_two_ranks_of_one_host_sit_on_one_gpu_and_sharing_is_said(cards, line):
    found = seats(cards)
    agreed = decide(found)
    hosts = zip(found, agreed.host_ids, strict=True)
    assert len({(new or seat.host, seat.card) for seat, new in hosts}) == 4
    assert agreed.sharing.startswith(line)
    assert bool(agreed.sharing) == bool(line)


def mixed(size):
    return [
        Seat("node1" if rank < 2 else "node2", "host", "machine", *device)
        for rank, device in enumerate([("cuda", "0"), ("cuda", "1"), ("cpu", "")][:size])
    ]


def test_a_gpu_and_a_processor_are_refused_by_name():
    with pytest.raises(SurroundingsError, match="cpu on node2, cuda on node1") as refused:
        decide(mixed(3))
    assert "CUDA_VISIBLE_DEVICES=-1" in str(refused.value)


def test_a_rank_that_does_not_come_is_named():
    store, seat = dist.HashStore(), mixed(1)[0]
    with pytest.raises(MissingRankError, match="rank 1 did not come to the meeting point"):
        agree(store, 0, 2, seat, timedelta(seconds=0.1))


def test_who_follows_starts_nccl_under_the_agreed_host(monkeypatch, capsys):
    monkeypatch.setenv(device_sharing.HOST_ID, "node1")
    two = decide([Seat("node1", "node1", "machine", "cuda", "0")] * 2)
    follow(two, 0)
    assert device_sharing.os.environ[device_sharing.HOST_ID] == "node1"
    assert capsys.readouterr().out.startswith("note: 2 ranks on 1 GPU: ranks 0, 1 share one.")
    follow(two, 1)
    assert device_sharing.os.environ[device_sharing.HOST_ID] == "node1-2"
    assert capsys.readouterr().out == ""
