"""A planted bottleneck changes the time of a step, but not the training."""

from __future__ import annotations

from types import SimpleNamespace

import one_run
import pytest

from faults import bottlenecks

LOSSES = ("--log-interval", "1", "--train-iters", "3")


def losses(text):
    lines = [line for line in text.splitlines() if " lm loss: " in line]
    return [line.split(" lm loss: ")[1].split()[0] for line in lines]


def test_the_losses_stay_the_same(worlds):
    flags = [*one_run.MODEL, *LOSSES]
    plain = worlds(2).run(one_run.program, flags)
    slow = worlds(2).run(one_run.program, [*flags, "--planted-bottleneck", "1"])
    assert [code for code, _ in slow] == [0, 0]
    assert losses("".join(text for _, text in slow)) == losses("".join(text for _, text in plain))
    assert len(losses("".join(text for _, text in slow))) == 3


@pytest.mark.parametrize(("every", "rank", "steps"), [(1, 2, 4), (2, 2, 2), (1, 1, 0)])
def test_one_rank_waits_for_its_data_in_every_step_or_every_second(monkeypatch, every, rank, steps):
    slept = []
    monkeypatch.setattr(bottlenecks.time, "sleep", slept.append)
    for name, value in (("RANK", rank), ("WORLD_SIZE", 4), ("LOCAL_RANK", rank)):
        monkeypatch.setenv(name, str(value))
    loader = SimpleNamespace(batch=lambda consumed, count: (consumed, count))
    args = SimpleNamespace(global_batch_size=8)
    training = SimpleNamespace(args=args, loaders={"train": loader})
    bottlenecks.SlowDisk(2, every).built(training)
    assert [loader.batch(8 * n, 2) for n in range(4)] == [(8 * n, 2) for n in range(4)]
    assert slept == [bottlenecks.SLOW_DISK_S] * steps
