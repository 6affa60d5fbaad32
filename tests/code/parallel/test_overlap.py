"""Gradients of finished layers are sent while backward computes the other layers."""

from __future__ import annotations

import one_run
import pytest
import torch

EARLY = "--overlap-grad-reduce --ddp-bucket-size"
LAYER = 12 * 32 * 32  # numbers in the matrices of one layer of one_run.MODEL


def sent_by(argv):
    """Return (first number, size, is backward running?) of every bucket piece of one step."""
    from checkpoints.checkpoint import Progress
    from parallel.overlap import GradientBuckets
    from pretrain_gpt import train_step

    pieces, whole = [], GradientBuckets.send

    def send(self, span):
        running = torch._C._current_graph_task_id() != -1
        pieces.append((span.start, span.stop - span.start, running))
        whole(self, span)

    GradientBuckets.send = send
    try:
        training = one_run.make(argv)
        train_step(training, Progress())
    finally:
        GradientBuckets.send = whole
    return pieces, training.holder.gradients.numel()


@pytest.fixture(scope="module")
def pieces(worlds):
    def of(ranks, flags):
        answers = worlds(ranks).run(sent_by, one_run.MODEL + flags.split())
        assert all(sent == answers[0][0] for sent, _ in answers), "ranks sent in different orders"
        return answers[0]

    return of


def test_each_layer_leaves_while_those_before_it_compute(pieces):
    sent, size = pieces(2, f"{EARLY} {LAYER}")
    early = [piece for piece in sent if piece[2]]
    assert len(early) == 4, "one for each of the four layers"
    assert [at for at, _, _ in early] == sorted((at for at, _, _ in early), reverse=True)
    assert sum(numbers for _, numbers, _ in sent) == size, "every gradient is sent once"


def test_two_layers_fill_a_bucket_of_their_size(pieces):
    sent, _ = pieces(2, f"{EARLY} {LAYER + 1}")
    assert [numbers for _, numbers, early in sent if early] == [2 * LAYER, 2 * LAYER]


def test_a_zero_bubble_schedule_sends_nothing_early(pieces):
    flags = "--pipeline-model-parallel-size 2 --pipeline-schedule zero-bubble"
    sent, _ = pieces(4, f"{EARLY} {LAYER} {flags}")
    assert sent == []
