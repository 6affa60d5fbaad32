"""Execution of a schedule: the work of each instruction, and the messages between the stages.

With one stage there are no messages, and the same loop is plain gradient accumulation: forward and
backward for each micro-batch in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from parallel.layout import Layout
from parallel.routes import Route, connect
from parallel.schedules import Backward, BackwardInput, BackwardWeight, Forward, Step
from process.pace import communicating, computing
from training.dropout import Dropout, Masks

if TYPE_CHECKING:
    from training.model import Stage

Sent = tuple[Any, Tensor]  # the handle of a message in transit, and its buffer
Batch = tuple[Tensor, Tensor]  # tokens and labels of one micro-batch, one row per token


class Pipeline:
    """Model pieces on this rank, and the schedule by which micro-batches pass through them."""

    def __init__(
        self,
        layout: Layout,
        stages: list[Stage],
        steps: list[Step],
        like: Tensor,
        last_backward: Callable[[bool], None] = lambda last: None,
        dropout: Dropout | None = None,
        begin: Callable[[Tensor | float], None] = lambda loss_gradient: None,
    ) -> None:
        self.layout, self.stages, self.steps, self.like = layout, stages, steps, like
        self.route = Route(layout.pipeline.ranks, layout.pipeline.index, len(stages))
        connect(self.route, layout.directions, like)
        self.last_backward, self.dropout, self.begin = last_backward, dropout, begin
        self.final = [s for s in steps if isinstance(s, Backward | BackwardInput)][-1:]

    def train(
        self, batches: list[Batch], loss_gradient: Tensor | float, first_sample: int = 0
    ) -> Tensor:
        """Add the gradients of all micro-batches to the buffers; return the sum of the losses.

        `loss_gradient`, the gradient of each token's loss, is one over the tokens of the global
        batch, times the loss scale. `first_sample` is the number of samples in earlier steps, over
        all ranks."""
        self.begin(loss_gradient)
        numbers = range(len(batches))
        masks = [self.dropout.masks(first_sample, n) if self.dropout else None for n in numbers]
        return _Pass(self, batches, loss_gradient, masks).run(self.steps)

    @torch.no_grad()
    def evaluate(self, batches: list[Batch]) -> Tensor:
        forwards: list[Step] = [step for step in self.steps if isinstance(step, Forward)]
        return _Pass(self, batches, 0.0, [None] * len(batches)).run(forwards)


class _Pass:
    """Micro-batches of one optimizer step."""

    def __init__(
        self,
        pipeline: Pipeline,
        batches: list[Batch],
        loss_gradient: Tensor | float,
        masks: list[Masks | None],
    ) -> None:
        self.p, self.batches, self.masks = pipeline, batches, masks
        self.loss_gradient = loss_gradient
        wide = torch.promote_types(pipeline.like.dtype, torch.float32)
        self.loss = torch.zeros((), dtype=wide, device=pipeline.like.device)
        # From the forward to the backward step of a micro-batch: input and output of the piece.
        # They are the ends of autograd's graph, which holds the activations between them.
        self.inputs: dict[Step, Tensor] = {}
        self.outputs: dict[Step, Tensor] = {}
        self.halves: dict[Step, int] = {}  # weight gradients queued by each backward step
        self.expected: dict[Step, tuple[Any, Tensor]] = {}
        # Buffers in transit may not be freed. An activation has arrived when its gradient returns.
        # Nothing confirms a gradient: at most as many as there are stages may be in transit, so
        # that a step of 32 micro-batches does not keep 32 tensors.
        self.sent_activations: dict[Step, Sent] = {}
        self.unanswered: deque[Sent] = deque()

    def run(self, steps: list[Step]) -> Tensor:
        doing = {
            Forward: self.forward,
            Backward: self.backward,
            BackwardInput: self.backward_input,
            BackwardWeight: self.backward_weight,
        }
        # gloo and NCCL match sends and receives in order. So the order of receives follows from the
        # schedule alone, never from what arrives first.
        receiving = [step for step in steps if self.p.route.incoming(step)]
        self.p.last_backward(False)
        for step in steps:
            if receiving and receiving[0] == step:
                receiving.pop(0)
                self.expect(step)
            # The next message may arrive while this step computes: this overlaps communication.
            if receiving:
                self.expect(receiving[0])
            if [step] == self.p.final:  # FSDP sums its gradients in this one
                self.p.last_backward(True)
            doing[type(step)](step)
        for work, _ in self.unanswered:
            work.wait()
        return self.loss

    def forward(self, step: Step) -> None:
        stage = self.p.stages[step.chunk]
        tokens, labels = self.batches[step.micro_batch]
        # Rows from the previous stage are a leaf of this rank's graph, which does not extend over
        # the network. Their .grad is sent back.
        x = tokens if stage.piece.first else self.receive(step).requires_grad_()
        with computing(self.p.route.name(step)):
            y = stage(x, labels, self.masks[step.micro_batch])
            if stage.piece.last:
                self.loss += y.detach().sum()
        key = Step(step.micro_batch, step.chunk)
        if torch.is_grad_enabled():
            self.inputs[key], self.outputs[key] = x, y
        self.send(step, y)

    def backward(self, step: Step) -> None:
        key = Step(step.micro_batch, step.chunk)
        x, y = self.inputs.pop(key), self.outputs.pop(key)
        if self.p.stages[step.chunk].piece.last:
            # y is the loss of every token. Its gradient is 1 / tokens of the global batch of all
            # ranks, so sums over micro-batches and ranks are the mean without a division.
            grad = torch.ones_like(y).mul_(self.loss_gradient)
        else:
            grad = self.receive(step)
            self.sent_activations.pop(key)[0].wait()
        with computing(self.p.route.name(step)):
            torch.autograd.backward(y, grad)
        self.send(step, x.grad)

    def backward_input(self, step: Step) -> None:
        work = self.p.stages[step.chunk].work
        # Matmuls queue their weight gradients instead of computing them (products.py).
        work.deferring, before = True, len(work.queue)
        self.backward(step)
        work.deferring = False
        self.halves[Step(step.micro_batch, step.chunk)] = len(work.queue) - before

    def backward_weight(self, step: Step) -> None:
        count = self.halves.pop(Step(step.micro_batch, step.chunk))
        with computing(self.p.route.name(step)):
            self.p.stages[step.chunk].work.run(count)

    def expect(self, step: Step) -> None:
        """Post the receive for a message before it is needed."""
        message = self.p.route.incoming(step)
        if message is None or step in self.expected:
            return
        box = torch.empty_like(self.p.like)  # all messages have this shape: [rows, hidden]
        group = self.p.layout.directions[message.way]
        self.expected[step] = (dist.irecv(box, message.peer, group, message.tag), box)

    def receive(self, step: Step) -> Tensor:
        work, box = self.expected.pop(step)
        with communicating("communication: receive"):
            work.wait()
        return box

    def send(self, step: Step, rows: Tensor | None) -> None:
        message = self.p.route.outgoing(step)
        if message is None or rows is None:
            return
        rows = rows.detach().contiguous()
        group = self.p.layout.directions[message.way]
        with communicating("communication: send"):
            sent = (dist.isend(rows, message.peer, group, message.tag), rows)
            if isinstance(step, Forward) and torch.is_grad_enabled():
                self.sent_activations[Step(step.micro_batch, step.chunk)] = sent
                return
            self.unanswered.append(sent)  # a gradient, or an activation of an evaluation
            if len(self.unanswered) > len(self.p.route.ranks):
                self.unanswered.popleft()[0].wait()
