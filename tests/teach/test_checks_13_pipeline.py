"""Lesson 13: a learner's pipeline whose real ranks send activations and gradients."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson13

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("13_parallel_layers_by_hand", "order-own")
tried = tried_with_swaps(OWN, "pipeline")
AHEAD = "ahead = min(size - rank - 1, len(batch))"
BUFFER = "tensor = torch.empty_like(batch[0][0])"
RECEIVES = "x = received(rank - 1).requires_grad_()"
DOWN = "send(y.detach(), rank + 1)"
SENT = "sent.append((dist.isend(tensor, target), tensor))"
WAITS = "    for work, _ in sent:\n        work.wait()\n"
RETURN = "return sum(losses) if is_last else None"
BACKWARD = "y.backward(None if is_last else received(rank + 1))"
IN_THREE_LOOPS = """import torch
import torch.distributed as dist


class Pipeline:
    def __init__(self, stage, batch, loss_of):
        self.stage, self.batch, self.loss_of = stage, batch, loss_of
        self.before, self.behind = dist.get_rank() - 1, dist.get_rank() + 1
        self.is_last = self.behind == dist.get_world_size()
        self.inputs, self.outputs, self.loss = {}, {}, torch.zeros((), dtype=torch.float64)

    def exchange(self, sent, got, peer):
        operations = [dist.P2POp(dist.isend, sent, peer)]
        if got is not None:
            operations.append(dist.P2POp(dist.irecv, got, peer))
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    def forward(self, m, x):
        self.inputs[m] = x
        y = self.stage(x)
        if self.is_last:
            y = self.loss_of(y, self.batch[m][1])
            self.loss += y.detach()
        self.outputs[m] = y

    def input_of(self, m):
        if self.before < 0:
            return self.batch[m][0]
        x = torch.zeros_like(self.batch[m][0])
        dist.recv(x, self.before)
        return x.requires_grad_()

    def backward(self, m, gradient):
        self.outputs.pop(m).backward(gradient)
        return self.inputs.pop(m).grad

    def run(self):
        count, ahead = len(self.batch), dist.get_world_size() - self.behind
        weight = torch.ones((), dtype=torch.float64) / count
        ahead = min(ahead, count)
        for m in range(ahead):
            self.forward(m, self.input_of(m))
            dist.send(self.outputs[m].detach(), self.behind)
        x = self.input_of(ahead) if ahead < count else None
        for m in range(count - ahead):
            self.forward(m + ahead, x)
            gradient = weight if self.is_last else torch.empty_like(x)
            if not self.is_last:
                self.exchange(self.outputs[m + ahead].detach(), gradient, self.behind)
            slope = self.backward(m, gradient)
            more = m + ahead + 1 < count
            if self.before >= 0:
                x = torch.empty_like(slope) if more else None
                self.exchange(slope, x, self.before)
                x = x.requires_grad_() if more else None
            elif more:
                x = self.batch[m + ahead + 1][0]
        for m in range(count - ahead, count):
            gradient = torch.empty_like(self.batch[0][0])
            dist.recv(gradient, self.behind)
            slope = self.backward(m, gradient)
            if self.before >= 0:
                dist.send(slope, self.before)
        return float(self.loss / count) if self.is_last else None


def train_step(stage, batch, loss_of):
    return Pipeline(stage, batch, loss_of).run()
"""
WITH_LOSS_EVERYWHERE = [
    (RETURN,
     "total = sum(losses, torch.zeros((), dtype=torch.float64))\n"
     "    dist.broadcast(total, size - 1)\n    return total"),
    (BUFFER, "shape = torch.zeros(2, dtype=torch.int64)\n        dist.recv(shape, source)\n"
     "        tensor = torch.zeros(*shape.tolist(), dtype=torch.float64)"),
    (SENT, "shape = torch.tensor(tensor.shape)\n        "
     "sent.append((dist.isend(shape, target), shape))\n        " + SENT),
]  # fmt: skip


def test_a_right_pipeline_passes(tried, capsys):
    lesson13.ex13_pipeline(tried())
    assert "stage r of p holds p − r micro-batches, as 1F1B does" in capsys.readouterr().out


@pytest.mark.parametrize(
    "swaps", [[(OWN, IN_THREE_LOOPS)], WITH_LOSS_EVERYWHERE], ids=["in three loops", "everywhere"]
)
def test_so_does_one_in_another_style(tried, swaps):
    lesson13.ex13_pipeline(tried(*swaps))


LAST = "y.sum().backward()"
BUFFERS = "held, sent, losses = [], [], []"
UP = "                send(x.grad, rank - 1)\n"
WRONG = {
    "all forward passes first": (
        [(AHEAD, "ahead = len(batch)")], "After p − r − 1 forward passes, one forward and one"),
    "one too many": (
        [(AHEAD, "ahead = min(size - rank, len(batch))")], "at once, but 1F1B holds 1. After"),
    "one at a time": ([(AHEAD, "ahead = 0")], "at once, but 1F1B holds 2. After"),
    "a sum": ([(" / len(batch)", "")], "Divide each loss by their number"),
    "the last loss": ([("losses.append(y.detach())", "losses[:] = [y.detach()]")],
                      "the result comes from the last micro-batch only"),
    "one loss alone": ([(" / len(batch)", ""), ("losses.append(y.detach())",
                        "losses[:] = [y.detach()]\n                y = y / len(batch)")],
                       "the mean of the losses of all micro-batches"),
    "zeros each time": ([("y = stage(x)", "stage.zero_grad()\n            y = stage(x)")],
                        "the result comes from the last micro-batch only"),
    "from ones": ([(BACKWARD, LAST), ("            if rank > 0:\n" + UP, "")],
                  "backward began with ones"),
    "a constant": ([(".requires_grad_()", "")], "needs requires_grad_() before forward"),
    "one buffer": ([(BUFFERS, BUFFERS + "\n    " + BUFFER), ("        " + BUFFER + "\n", "")],
                   "share a buffer"),
    "the last one first": ([("held.pop(0)", "held.pop()")], "the first micro-batch also goes back"),
    "plain sends": ([(SENT, "dist.send(tensor, target)")],
                    "ranks 0, 1 wait in send, and each of them waits for another"),
    "no waits": ([(WAITS, "")], "did not wait for one of these calls: send"),
    "no loss": ([(RETURN, "return None")], "is None"),
    "no end": ([("range(len(batch) + ahead)", "range(len(batch))")],
               "from rank 1 to rank 0: 1 sent, 0 received"),
    "twice on one side": ([(UP, UP + UP)], "from rank 1 to rank 0: 2 sent, 1 received"),
    "twice": (
        [(DOWN, f"{DOWN}\n                {DOWN}"),
         (RECEIVES, f"{RECEIVES}\n                {RECEIVES}")],
        "bytes, and 384 are enough"),
}  # fmt: skip


@pytest.mark.many(4)
@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_named(tried, name):
    swaps, hint = WRONG[name]
    assert hint in hint_of(lesson13.ex13_pipeline, tried(*swaps))
