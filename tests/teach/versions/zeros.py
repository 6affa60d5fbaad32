"""ZeRO-1 of exercise 11 to try: the lesson's, other right ones, wrong ones with their hint."""

from __future__ import annotations

from ..own_trials import FUNCOL, swapped

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
WRITES = "p.data.copy_(whole[start : start + p.numel()].view_as(p))"
SLICE = "own.copy_(gradients.chunk(self.size)[self.rank])"
REDUCE_TO_EACH = """for r, part in enumerate(gradients.chunk(self.size)):
            dist.reduce(part, r)
            if r == self.rank: own.copy_(part)"""
BROADCASTS = """for r, part in enumerate(whole.chunk(self.size)):
            if r == self.rank: part.copy_(self.shard)
            dist.broadcast(part, r)"""
PER_PARAMETER = """
import torch, torch.distributed as dist
class Zero1:
    def __init__(self, parameters, make):
        self.n, rank = dist.get_world_size(), dist.get_rank()
        self.all = [(p, -p.numel() % self.n) for p in parameters]
        rows = [self.row(p.detach(), more).view(self.n, -1) for p, more in self.all]
        self.mine = [row[rank].clone() for row in rows]
        self.adam = make(self.mine)
    def row(self, t, more): return torch.cat([t.flatten(), t.new_zeros(more)])
    def step(self):
        for (p, more), shard in zip(self.all, self.mine):
            parts = list(self.row(p.grad, more).chunk(self.n))
            shard.grad = torch.zeros_like(shard)
            dist.reduce_scatter(shard.grad, parts)
            shard.grad.div_(self.n)
        self.adam.step()
        with torch.no_grad():
            for (p, more), shard in zip(self.all, self.mine):
                parts = [torch.empty_like(shard) for _ in range(self.n)]
                dist.all_gather(parts, shard)
                p.copy_(torch.cat(parts)[: p.numel()].view(p.shape))
"""
MEAN = "self.shard.grad = own / self.size"
STEPS = "        self.optimizer.step()"
RING = """after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        pieces = gradients.chunk(self.size)
        for k in range(1, ROUNDS):
            going = pieces[(self.rank - k) % self.size]
            coming = pieces[(self.rank - k - 1) % self.size]
            arrived = torch.empty_like(coming)
            sent = dist.isend(going.contiguous(), after)
            dist.irecv(arrived, before).wait()
            sent.wait()
            coming.copy_(coming + arrived if k < self.size else arrived)
        own.copy_(pieces[self.rank])"""
GATHER_TO_EACH = """for r, part in enumerate(gradients.chunk(self.size)):
            got = [torch.empty_like(part) for _ in range(self.size)] if r == self.rank else None
            dist.gather(part.contiguous(), got, dst=r)
            if got: own = torch.stack(got).sum(0)"""
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
    "ranks of the environment": swapped(
        PROGRAM, ("dist.get_world_size()", "int(__import__('os').environ['WORLD_SIZE'])"),
    ),
    "other collectives": swapped(PROGRAM, (SCATTERS, REDUCE_TO_EACH), (GATHERS, BROADCASTS)),
    "parameter by parameter": PER_PARAMETER,
    "in place, older names": swapped(
        PROGRAM, ("reduce_scatter_single", "reduce_scatter_tensor"),
        ("all_gather_single", "all_gather_into_tensor"),
        (WRITES, "p.data = whole[start : start + p.numel()].view_as(p)"),
    ),
    "all_to_all": swapped(
        PROGRAM, (SCATTERS, "every = torch.empty_like(gradients); "
                "dist.all_to_all_single(every, gradients); own = every.view(self.size, -1).sum(0)"),
    ),
    "a ring": swapped(PROGRAM, (SCATTERS, RING.replace("ROUNDS", "self.size"))),
    "functional collectives": swapped(
        PROGRAM, FUNCOL,
        (SCATTERS, "own = funcol.reduce_scatter_tensor(gradients, 'sum', 0, dist.group.WORLD)"),
        (GATHERS, "whole = funcol.all_gather_tensor(self.shard, 0, dist.group.WORLD)"),
    ),
    "gathered to each": swapped(PROGRAM, (SCATTERS, GATHER_TO_EACH)),
    "a norm is summed": swapped(
        PROGRAM, (MEAN, MEAN + "; norm = self.shard.grad.pow(2).sum(); dist.all_reduce(norm)"),
    ),
    "in hooks": IN_HOOKS,
    "groups of parameters": swapped(
        PROGRAM, (MAKES, "self.optimizer = make_optimizer([{'params': [self.shard]}])"),
    ),
}  # fmt: skip
WRONG = {
    "no division": ([("own / self.size", "own")], "the sum of the gradients, not the mean"),
    "divided twice": ([("own / self.size", "own / self.size**2")], "divided by 2 twice"),
    "own gradients": ([(SCATTERS, SLICE)], "by its own gradients alone"),
    "not gathered": (
        [(GATHERS, "whole = self.row(self.parameters)\n        "
          "whole.chunk(self.size)[self.rank].copy_(self.shard)")],
        "the all-gather that brings the shards of the others is missing",
    ),
    "gathered into nothing": ([(GATHERS, "whole.zero_()")], "no all-gather was called"),
    "not written back": ([("p.data.copy_(", "p.data.clone().copy_(")], "copied back"),
    "whole state": (
        [(MAKES, "self.optimizer = make_optimizer(self.parameters)"),
         (PROGRAM[PROGRAM.index("        gradients ="):],
          "        for p in self.parameters:\n            dist.all_reduce(p.grad)\n"
          "            p.grad /= self.size\n        self.optimizer.step()\n")],
        "state for 84 of 84 numbers",
    ),
    "all_reduce": (
        [(SCATTERS, "dist.all_reduce(gradients); " + SLICE)], "whole gradients on every rank",
    ),
    "padding forgotten": ([("-numbers % self.size", "0")], "Fill the row up with zeros"),
    "rounded down": (
        [("-numbers % self.size", "-(numbers % self.size)"),
         (WRITES, "part = whole[start : start + p.numel()]\n"
          "            p.data.view(-1)[: len(part)].copy_(part)")],
        "round up, not down",
    ),
    "other orders": (
        [(SCATTERS, f"{SCATTERS} if self.rank or self.size < 2 else dist.barrier()")],
        "rank 0: barrier(",
    ),
    "rank 0 only": (
        [(GATHERS, "dist.all_gather_single(whole, self.shard)\n        if self.rank: return")],
        "only rank 0 has",
    ),
    "state lost": (
        [(MAKES, "self.make = make_optimizer"),
         ("self.optimizer.step()", "self.make([self.shard]).step()")],
        "Make the optimizer once",
    ),
    "added up": (
        [("self.shard.grad = own / self.size",
          "last = getattr(self.shard.grad, 'data', 0)\n"
          "        self.shard.grad = own / self.size + last")],
        "the gradient of the step before",
    ),
    "reduced and handed on": (
        [(SCATTERS, "dist.reduce(gradients, 0); dist.broadcast(gradients, 0); " + SLICE)],
        "By broadcast every rank gets 84 numbers",
    ),
    "rows for every rank": (
        [(SCATTERS, "for r in range(self.size):\n            copy = gradients.clone()\n"
          "            dist.reduce(copy, r)\n            if r == self.rank: "
          "own.copy_(copy.chunk(self.size)[r])")],
        "what belongs to others",
    ),
    "a whole ring": (
        [(SCATTERS, RING.replace("ROUNDS", "2 * self.size - 1"))],
        "After the first round of a ring",
    ),
    "all gradients gathered": (
        [(SCATTERS, "every = gradients.new_empty(self.size * len(gradients)); "
          "dist.all_gather_single(every, gradients); "
          "own = every.view(self.size, -1).sum(0).chunk(self.size)[self.rank]")],
        "By all_gather_single every rank gets 336 numbers",
    ),
    "a tensor, no list": (
        [(MAKES, "self.optimizer = make_optimizer(self.shard)")], "make_optimizer([self.shard])",
    ),
    "a view": ([("[self.rank].clone()", "[self.rank]")], "A copy by .clone()"),
    "with history": ([("t.detach().flatten()", "t.flatten()")], ".detach() leaves it behind"),
    "divided by 4": ([("own / self.size", "own / 4")], "0.25 times the mean"),
    "float32": ([("t.detach().flatten()", "t.detach().flatten().float()")], "through float32"),
    "bf16": (
        [(SCATTERS, "low = own.bfloat16(); "
          "dist.reduce_scatter_single(low, gradients.bfloat16()); own.copy_(low)")],
        "through bf16",
    ),
    "a buffer of another type": (
        [("own = torch.empty_like(self.shard)", "own = torch.empty(self.shard.shape)")],
        "have different types",
    ),
    "rank 0 alone steps": (
        [(STEPS, "        if self.rank == 0: self.optimizer.step()")],
        "nothing new came from rank 1",
    ),
    "a broadcast": ([(SCATTERS, "dist.broadcast(gradients, 0); " + SLICE)], "gradients of rank 0"),
    "never waited for": (
        [(SCATTERS, SCATTERS[:-1] + ", async_op=True)")], "nobody waited for reduce_scatter_single",
    ),
    "no step": ([(STEPS + "\n", "")], "was never called"),
    "another tensor": (
        [(MAKES, "self.optimizer = make_optimizer([self.shard.clone()])")], "the very tensor",
    ),
    "results behind": (
        [(SCATTERS, "dist.reduce_scatter_single(gradients, own) if self.size > 1 else "
          "own.copy_(gradients)")],
        "The first argument is where the result goes",
    ),
    "four ranks always": ([("dist.get_world_size()", "4")], "another number of ranks"),
    "no room": (
        [(SCATTERS, "dist.reduce_scatter_single(self.shard.grad, gradients)")], "is no tensor yet",
    ),
    "a group of its own": (
        [("import torch.distributed as dist\n",
          "import torch.distributed as dist\ndist.init_process_group('gloo')\n")],
        "leave init_process_group out",
    ),
    "another name": ([("class Zero1", "class ZeRO1")], "It defines ZeRO1."),
    "another rank's shard": (
        [("chunk(self.size)[self.rank]", "chunk(self.size)[self.rank - 1]")], "none of what",
    ),
}  # fmt: skip
