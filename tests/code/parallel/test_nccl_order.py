"""The pipeline's NCCL messages all arrive, by a model of NCCL's rules, because no GPU is here.

The test records the calls that the program makes on each rank. The rules are:

- The messages of a group run one after the other, in the order of issue. Each begins when all that
  was computed before it is done.
- Two ranks that have not yet sent to each other in a direction are joined first. Until both ask for
  it, neither program continues. On one H200, two stages waited there forever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from schedule_cases import CASES

from parallel import pipeline, routes
from parallel.routes import WAYS
from parallel.schedules import steps_of


@dataclass
class Talk:
    """Replacement for torch.distributed on one rank. It records the calls."""

    rank: int
    calls: list = field(default_factory=list)

    def get_backend(self):
        return "nccl"

    def isend(self, tensor, peer, group, tag=0):
        return self.messages([(group, self.rank, peer)])

    def irecv(self, tensor, peer, group, tag=0):
        return self.messages([(group, peer, self.rank)])

    def P2POp(self, call, tensor, peer, group):
        here = (self.rank, peer) if call == self.isend else (peer, self.rank)
        return (group, *here)

    def batch_isend_irecv(self, moves):
        return [self.messages(moves)]

    def messages(self, edges):
        self.calls.append(("messages", edges))
        number = len(self.calls) - 1
        return SimpleNamespace(wait=lambda: self.calls.append(("wait", number)))


class Layer(torch.nn.Module):
    """Stage as the pipeline sees it: an input, an output, and deferred weight gradients."""

    def __init__(self, first, last):
        super().__init__()
        self.piece = SimpleNamespace(first=first, last=last)
        self.work = SimpleNamespace(queue=[], run=lambda count: None)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, labels, masks):
        return x * self.weight


def calls_of(monkeypatch, rank, case, work, joined):
    name, stages, micro_batches, chunks = case
    talk = Talk(rank)
    for module in (pipeline, routes):
        monkeypatch.setattr(module, "dist", talk)
    if not joined:
        monkeypatch.setattr(pipeline, "connect", lambda *anything: None)
    group = SimpleNamespace(ranks=list(range(stages)), index=rank)
    layout = SimpleNamespace(pipeline=group, directions={way: way for way in WAYS})
    pieces = [rank + stages * chunk for chunk in range(chunks)]
    layers = [Layer(piece == 0, piece == stages * chunks - 1) for piece in pieces]
    steps = steps_of(name, stages, rank, micro_batches, chunks)
    whole = pipeline.Pipeline(layout, layers, steps, torch.zeros(1))
    batches = [(torch.zeros(1), torch.zeros(1))] * micro_batches
    if work == "train":
        whole.train(batches, 1.0)
    else:
        whole.evaluate(batches)
    return talk.calls


class Rank:
    """A program that runs ahead of its device. The device has a stream for computing and one for
    each direction."""

    def __init__(self, calls):
        self.calls, self.at = calls, 0
        self.computing = []  # numbers of the messages to wait for, in order
        self.computed = 0
        self.streams = {way: [] for way in WAYS}
        self.done = set()

    def asks(self, joined):
        """Return the pairs of ranks that the program waits to be joined."""
        if self.at == len(self.calls) or self.calls[self.at][0] == "wait":
            return set()
        return set(self.calls[self.at][1]) - joined

    def program(self, joined):
        moved = False
        while self.at < len(self.calls) and not self.asks(joined):
            kind, what = self.calls[self.at]
            if kind == "wait":
                self.computing.append(what)
            else:
                self.streams[what[0][0]].append((self.at, set(what), len(self.computing)))
            self.at, moved = self.at + 1, True
        return moved

    def compute(self):
        before = self.computed
        while self.computed < len(self.computing) and self.computing[self.computed] in self.done:
            self.computed += 1
        return self.computed > before

    def running(self, way):
        """Return the messages of the first runnable call that have not arrived yet."""
        first = next(iter(self.streams[way]), None)
        return first[1] if first and first[2] <= self.computed else set()

    def end_calls(self):
        for stream in self.streams.values():
            if stream and not stream[0][1]:
                self.done.add(stream.pop(0)[0])

    @property
    def over(self):
        return self.at == len(self.calls) and not any(self.streams.values())


def deliver(ranks):
    """Deliver each message that runs at both ends."""
    moved = False
    for way in WAYS:
        running = [rank.running(way) for rank in ranks]
        for edge in {edge for edges in running for edge in edges}:
            if edge in running[edge[1]] and edge in running[edge[2]]:
                running[edge[1]].discard(edge)
                running[edge[2]].discard(edge)
                moved = True
    for rank in ranks:
        rank.end_calls()
    return moved


def join(ranks, joined):
    asked = [rank.asks(joined) for rank in ranks]
    both = {edge for edges in asked for edge in edges
            if edge in asked[edge[1]] and edge in asked[edge[2]]}  # fmt: skip
    joined |= both
    return bool(both)


def comes_to_an_end(every_calls):
    ranks, joined = [Rank(calls) for calls in every_calls], set()
    while True:
        moved = [rank.program(joined) for rank in ranks]
        moved += [rank.compute() for rank in ranks]
        if not (deliver(ranks) or join(ranks, joined) or any(moved)):
            return all(rank.over for rank in ranks)


def ends(monkeypatch, case, work, joined=True):
    with monkeypatch.context() as patched:
        return comes_to_an_end(
            [calls_of(patched, rank, case, work, joined) for rank in range(case[1])]
        )


PIPELINES = [case for case in CASES if case[1] > 1]


@pytest.mark.parametrize("work", ["train", "evaluate"])
@pytest.mark.parametrize("case", PIPELINES, ids=lambda case: "-".join(map(str, case)))
def test_no_schedule_waits_for_ever_under_nccls_rules(monkeypatch, case, work):
    assert ends(monkeypatch, case, work)


@pytest.mark.parametrize("case", [("1f1b", 2, 2, 1), ("gpipe", 2, 2, 1), ("1f1b", 4, 4, 1)])
def test_neighbours_that_were_not_joined_beforehand_wait_for_each_other(monkeypatch, case):
    assert not ends(monkeypatch, case, "train", joined=False)
