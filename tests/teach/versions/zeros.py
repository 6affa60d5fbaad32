"""ZeRO-1 of lesson 11: the lesson's solution, other right solutions, and wrong ones with their
hints."""

from __future__ import annotations

from ..own_trials import swapped

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.functional import pad


class Zero1:
    def __init__(self, parameters, make_optimizer):
        self.parameters = list(parameters)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        numbers = sum(p.numel() for p in self.parameters)
        self.padding = -numbers % self.size
        self.shard = self.row(self.parameters).chunk(self.size)[self.rank].clone()
        self.optimizer = make_optimizer([self.shard])

    def row(self, tensors):
        return pad(torch.cat([t.detach().flatten() for t in tensors]), (0, self.padding))

    def step(self):
        gradients = self.row([p.grad for p in self.parameters])
        own = torch.empty_like(self.shard)
        dist.reduce_scatter_single(own, gradients)
        self.shard.grad = own / self.size
        self.optimizer.step()
        whole = torch.empty_like(gradients)
        dist.all_gather_single(whole, self.shard)
        start = 0
        for p in self.parameters:
            p.data.copy_(whole[start : start + p.numel()].view_as(p))
            start += p.numel()
"""

SCATTERS = "dist.reduce_scatter_single(own, gradients)"
GATHERS = "dist.all_gather_single(whole, self.shard)"
MAKES = "self.optimizer = make_optimizer([self.shard])"
SLICE = "own.copy_(gradients.chunk(self.size)[self.rank])"
REDUCE_TO_EACH = """for r, part in enumerate(gradients.chunk(self.size)):
            dist.reduce(part, r)
            if r == self.rank: own.copy_(part)"""
BROADCASTS = """for r, part in enumerate(whole.chunk(self.size)):
            if r == self.rank: part.copy_(self.shard)
            dist.broadcast(part, r)"""
STEPS = "        self.optimizer.step()"
IN_HOOKS = """
import torch, torch.distributed as dist
class Zero1:
    def __init__(self, parameters, make_optimizer):
        self.n, self.r, self.pairs, self.works = dist.get_world_size(), dist.get_rank(), [], []
        for p in parameters:
            shard = self.pad(p.detach()).reshape(self.n, -1)[self.r].clone()
            self.pairs.append((p, shard))
            p.register_post_accumulate_grad_hook(lambda p, shard=shard: self.ready(p, shard))
        self.opt = make_optimizer(s for _, s in self.pairs)
    def pad(self, t): return torch.cat([t.reshape(-1), t.new_zeros(-t.numel() % self.n)])
    def ready(self, p, shard):
        shard.grad, row = torch.empty_like(shard), self.pad(p.grad).div_(self.n)
        self.works.append((dist.reduce_scatter_single(shard.grad, row, async_op=True), row))
        p.grad = None
    def step(self):
        for work, _ in self.works: work.wait()
        self.works.clear()
        self.opt.step()
        for p, shard in self.pairs:
            row = shard.new_empty(self.n * len(shard))
            dist.all_gather_single(row, shard)
            p.data.copy_(row[: p.numel()].view_as(p))
"""
RIGHT = {
    "as in the lesson": PROGRAM,
    "other collectives": swapped(PROGRAM, (SCATTERS, REDUCE_TO_EACH), (GATHERS, BROADCASTS)),
    "in hooks": IN_HOOKS,
}  # fmt: skip
WRONG = {
    "no division": ([("own / self.size", "own")], "Is a sum or a division by"),
    "not gathered": (
        [(GATHERS, "whole = self.row(self.parameters)\n        "
          "whole.chunk(self.size)[self.rank].copy_(self.shard)")],
        "Gather the pieces of all ranks",
    ),
    "not written back": ([("p.data.copy_(", "p.data.clone().copy_(")], "copied back"),
    "whole state": (
        [(MAKES, "self.optimizer = make_optimizer(self.parameters)"),
         (PROGRAM[PROGRAM.index("        gradients ="):],
          "        for p in self.parameters:\n            dist.all_reduce(p.grad)\n"
          "            p.grad /= self.size\n        self.optimizer.step()\n")],
        "optimizer state for 84 of 84 numbers",
    ),
    "all_reduce": (
        [(SCATTERS, "dist.all_reduce(gradients); " + SLICE)], "whole gradients on every rank",
    ),
    "padding forgotten": ([("-numbers % self.size", "0")], "Pad the row with zeros"),
    "state lost": (
        [(MAKES, "self.make = make_optimizer"),
         ("self.optimizer.step()", "self.make([self.shard]).step()")],
        "Make the optimizer once",
    ),
    "a view": ([("[self.rank].clone()", "[self.rank]")], "a copy by .clone()"),
    "rank 0 alone steps": (
        [(STEPS, "        if self.rank == 0: self.optimizer.step()")],
        "step() of the optimizer was not called",
    ),
    "another tensor": (
        [(MAKES, "self.optimizer = make_optimizer([self.shard.clone()])")], "itself, or a copy",
    ),
    "another rank's shard": (
        [("chunk(self.size)[self.rank]", "chunk(self.size)[self.rank - 1]")],
        "Rank r keeps, updates and sends shard r",
    ),
    "own gradients alone": ([(SCATTERS, SLICE)], "piece r has only the numbers of rank r"),
    "no offset": ([("            start += p.numel()\n", "")], "takes the next p.numel() numbers"),
    "gradients copied": ([(GATHERS, "dist.all_gather_single(whole, self.shard.grad)")],
                         "Gather the shards into one row"),
    "added": ([("p.data.copy_(", "p.data.add_(")], "the parameters are wrong after the step"),
    "divided twice": ([("own / self.size", "own / self.size**2")], "or is one too many?"),
}  # fmt: skip
