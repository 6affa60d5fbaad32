"""A planted bottleneck changes how long a step takes, and nothing that is learned."""

from __future__ import annotations

from types import SimpleNamespace

import one_run
import pytest

from training import planted

LOSSES = ("--log-interval", "1", "--train-iters", "3")


def losses(text):
    lines = [line for line in text.splitlines() if " lm loss: " in line]
    return [line.split(" lm loss: ")[1].split()[0] for line in lines]


@pytest.mark.parametrize("case", ["1", "2"])
def test_the_losses_stay_the_same(worlds, case):
    flags = [*one_run.MODEL, *LOSSES]
    plain = worlds(2).run(one_run.program, flags)
    slow = worlds(2).run(one_run.program, [*flags, "--planted-bottleneck", case])
    assert [code for code, _ in slow] == [0, 0]
    assert losses("".join(text for _, text in slow)) == losses("".join(text for _, text in plain))
    assert len(losses("".join(text for _, text in slow))) == 3


@pytest.mark.parametrize(("rank", "waits"), [(0, 0), (1, 0), (2, 1), (3, 0)])
def test_the_first_makes_one_rank_wait_for_its_data(monkeypatch, rank, waits):
    slept = []
    monkeypatch.setattr(planted.time, "sleep", slept.append)
    layout = SimpleNamespace(rank=rank, everyone=SimpleNamespace(size=4))
    planted.before_reading(SimpleNamespace(planted_bottleneck="1"), layout)
    assert slept == [planted.SLOW_DISK_S] * waits


def test_the_second_makes_an_operator_for_each_row(worlds):
    """Two for each 1024 gradients: the sum and the question for its value."""
    [calls] = worlds(1).run(count_items, [*one_run.MODEL])
    with_it, without, rows = calls
    assert with_it - without == rows > 1


def count_items(flags):
    from torch.profiler import profile

    from checkpoints.checkpoint import Progress
    from pretrain_gpt import train_step

    counts = []
    for more in (["--planted-bottleneck", "2"], []):
        training = one_run.make([*flags, *more])
        with profile() as recording:
            train_step(training, Progress())
        calls = {event.key: event.count for event in recording.key_averages()}
        counts.append(calls.get("aten::item", 0))
    size = training.holder.gradients.numel()
    return [*counts, -(-size // planted.ROW)]
