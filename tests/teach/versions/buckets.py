"""Buckets of exercise 02.4: the lesson's solution, other right solutions, and wrong ones with
their hints."""

from __future__ import annotations

PROGRAM = """
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    MOST = 80  # numbers

    def __init__(self, model):
        super().__init__()
        self.model = model
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        self.waiting, self.sent = [], []
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *inputs):
        return self.model(*inputs)

    def ready(self, parameter):
        self.waiting.append(parameter)
        if sum(p.numel() for p in self.waiting) >= self.MOST:
            self.send()

    def send(self):
        flat = torch.cat([p.grad.flatten() for p in self.waiting]) / dist.get_world_size()
        self.sent.append((dist.all_reduce(flat, async_op=True), flat, self.waiting))
        self.waiting = []

    def finish(self):
        if self.waiting:
            self.send()
        for work, flat, parameters in self.sent:
            work.wait()
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                p.grad.copy_(part.view_as(p))
        self.sent = []
"""

WORLD = "dist.group.WORLD"
ASYNC, WORK = "dist.all_reduce(flat, async_op=True)", "            work.wait()\n"
WRONG = {
    "all after backward": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if False:")],
        "none came before all 6 gradients were there",
    ),
    "blocking": (
        [(ASYNC, "dist.all_reduce(flat)"), (WORK, "")],
        "so backward stopped",
    ),
    "the rest is not sent": (
        [("        if self.waiting:\n            self.send()\n", "")],
        "p.grad is None until",
    ),
    "not copied back": (
        [("p.grad.copy_(part.view_as(p))", "pass")],
        "Is the bucket copied back",
    ),
    "other buckets": (
        [(">= self.MOST:", ">= self.MOST + 50 * dist.get_rank():")],
        "in the same order",
    ),
    "no wait": ([(WORK, "")], "did not wait for one of these calls: all_reduce(90 numbers"),
    "no work": ([(ASYNC, "dist.all_reduce(flat)")],
                "returns None, except with async_op=True"),
    "a hook on what is frozen": (
        [("if parameter.requires_grad:", "if True:")],
        "Backward does not reach this tensor: it is data, or frozen.",
    ),
    "hook before": (
        [("register_post_accumulate_grad_hook(self.ready)",
          "register_hook(lambda grad, p=parameter: self.ready(p))")],
        "use register_post_accumulate_grad_hook",
    ),
}  # fmt: skip
RIGHT = {
    "async by its place": [(ASYNC, "dist.all_reduce(flat, dist.ReduceOp.SUM, None, True)")],
    "a future": [(ASYNC, ASYNC + ".get_future()")],
}  # fmt: skip
