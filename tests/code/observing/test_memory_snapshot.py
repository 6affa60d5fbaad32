"""What --record-memory-history does around the recorded steps of a GPU; PyTorch's record is a
stand-in, as it needs one. benchmarks/gpu_acceptance.py runs it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint


@pytest.fixture
def calls(monkeypatch, tmp_path):
    from observing import memory_snapshot

    found = []
    memory = torch.cuda.memory
    monkeypatch.setattr(memory_snapshot, "possible", lambda: True)
    monkeypatch.setattr(memory, "_record_memory_history", lambda **given: found.append(given))
    monkeypatch.setattr(memory, "_dump_snapshot", found.append)
    args = SimpleNamespace(memory_snapshot_path=str(tmp_path / "new" / "s.pickle"),
                           record_memory_history=True)  # fmt: skip
    return memory_snapshot.Snapshot(args, rank=3), found


def products_of_backward():
    """Of a checkpointed piece whose last operation backward has no use for."""
    seen = []

    def piece(x):
        y = x.exp()
        seen.append("exp")
        y = y + 1
        seen.append("plus")
        return y

    x = torch.ones(2, requires_grad=True)
    result = checkpoint(piece, x, use_reentrant=False).sum()
    seen.clear()
    result.backward()
    return seen


def test_a_recorded_layer_is_computed_again_to_its_end(calls):
    """Where it stops by an exception, the record of a GPU's memory loses the exception."""
    snapshot, _ = calls
    assert "plus" not in products_of_backward()
    snapshot.begin()
    assert products_of_backward() == ["exp", "plus"]
    snapshot.finish()
    assert "plus" not in products_of_backward()


def test_each_rank_has_a_file_and_the_record_ends(calls):
    snapshot, found = calls
    snapshot.begin()
    snapshot.finish()
    assert found[1].endswith("s.rank3.pickle")
    assert found[-1] == {"enabled": None}
