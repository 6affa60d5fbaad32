"""Lesson 11: ZeRO-1 and FSDP of learners, on four real ranks, each with its hint."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson11

from .answers_to_try import hold
from .finished_runs import hint_of
from .own_trials import swapped

CHECKS = {"zero1": lesson11.ex11_zero1, "fsdp": lesson11.ex11_fsdp}

ZERO1 = """
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

FSDP = """
import torch
import torch.distributed as dist
from torch.nn.functional import pad


class FSDP(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        rank, self.size = dist.get_rank(), dist.get_world_size()
        self.inside = list(layer.parameters())
        whole = torch.cat([p.detach().flatten() for p in self.inside])
        self.whole = pad(whole, (0, -len(whole) % self.size))
        self.shard = torch.nn.Parameter(self.whole.chunk(self.size)[rank].clone())
        start = 0
        for p in self.inside:
            p.data = self.whole[start : start + p.numel()].view_as(p)
            start += p.numel()
            p.register_post_accumulate_grad_hook(self.ready)
        self.bytes = self.whole.untyped_storage().nbytes()
        self.free()

    def free(self):
        self.whole.untyped_storage().resize_(0)

    def gather(self, *_):
        self.whole.untyped_storage().resize_(self.bytes)
        dist.all_gather_single(self.whole, self.shard.detach())

    def forward(self, x):
        self.gather()
        y = self.layer(x)
        self.free()
        y.register_hook(self.gather)
        return y

    def ready(self, _):
        if any(p.grad is None for p in self.inside):
            return
        row = torch.cat([p.grad.flatten() for p in self.inside])
        row = pad(row, (0, len(self.whole) - len(row)))
        self.shard.grad = torch.empty_like(self.shard)
        dist.reduce_scatter_single(self.shard.grad, row)
        self.shard.grad /= self.size
        for p in self.inside:
            p.grad = None
        self.free()
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
FUNCTIONAL = (
    "import torch.distributed as dist\n",
    "import torch.distributed as dist\n"
    "import torch.distributed._functional_collectives as funcol\n",
)
RIGHT_ZEROS = {
    "as in the lesson": ZERO1,
    "ranks of the environment": swapped(
        ZERO1, ("dist.get_world_size()", "int(__import__('os').environ['WORLD_SIZE'])"),
    ),
    "other collectives": swapped(ZERO1, (SCATTERS, REDUCE_TO_EACH), (GATHERS, BROADCASTS)),
    "parameter by parameter": PER_PARAMETER,
    "in place, older names": swapped(
        ZERO1, ("reduce_scatter_single", "reduce_scatter_tensor"),
        ("all_gather_single", "all_gather_into_tensor"),
        (WRITES, "p.data = whole[start : start + p.numel()].view_as(p)"),
    ),
    "all_to_all": swapped(
        ZERO1, (SCATTERS, "every = torch.empty_like(gradients); "
                "dist.all_to_all_single(every, gradients); own = every.view(self.size, -1).sum(0)"),
    ),
    "a ring": swapped(ZERO1, (SCATTERS, RING.replace("ROUNDS", "self.size"))),
    "functional collectives": swapped(
        ZERO1, FUNCTIONAL,
        (SCATTERS, "own = funcol.reduce_scatter_tensor(gradients, 'sum', 0, dist.group.WORLD)"),
        (GATHERS, "whole = funcol.all_gather_tensor(self.shard, 0, dist.group.WORLD)"),
    ),
    "gathered to each": swapped(ZERO1, (SCATTERS, GATHER_TO_EACH)),
    "a norm is summed": swapped(
        ZERO1, (MEAN, MEAN + "; norm = self.shard.grad.pow(2).sum(); dist.all_reduce(norm)"),
    ),
    "in hooks": IN_HOOKS,
    "groups of parameters": swapped(
        ZERO1, (MAKES, "self.optimizer = make_optimizer([{'params': [self.shard]}])"),
    ),
}  # fmt: skip
WRONG_ZEROS = {
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
         (ZERO1[ZERO1.index("        gradients ="):],
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


@pytest.mark.parametrize("name", RIGHT_ZEROS)
def test_right_zeros_pass(tried, capsys, name):
    lesson11.ex11_zero1(tried(RIGHT_ZEROS[name], "zero1"))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(4)
@pytest.mark.parametrize("name", WRONG_ZEROS)
def test_a_wrong_zero_is_told_its_mistake(tried, name):
    pairs, words = WRONG_ZEROS[name]
    assert words in hint_of(lesson11.ex11_zero1, tried(swapped(ZERO1, *pairs), "zero1"))


CLONE = "self.whole.chunk(self.size)[rank].clone()"
GATHER = "dist.all_gather_single(self.whole, self.shard.detach())"
REDUCES = "dist.reduce_scatter_single(self.shard.grad, row)"
FREES_LAST = "            p.grad = None\n        self.free()\n"
SWAPPING = swapped(
    FSDP, ("self.whole.untyped_storage().resize_(0)",
           "for p in self.inside: p.data = p.data.new_empty(0)\n"
           "        self.whole = self.whole.to('meta')"),
    (GATHER, "whole = torch.empty(len(self.whole), dtype=self.shard.dtype)\n"
     "        dist.all_gather_single(whole, self.shard.detach())\n        start = 0\n"
     "        for p, shape in zip(self.inside, self.shapes):\n"
     "            p.data = whole[start : start + shape.numel()].view(shape)\n"
     "            start += shape.numel()"),
    ("        self.whole.untyped_storage().resize_(self.bytes)\n", ""),
    ("        start = 0\n        for p in self.inside:\n",
     "        self.shapes = [p.shape for p in self.inside]\n        start = 0\n"
     "        for p in self.inside:\n"),
)  # fmt: skip
RECOMPUTED = """
import torch, torch.distributed as dist
from torch.utils.checkpoint import checkpoint
class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard)
        return torch.cat(parts)
    @staticmethod
    def backward(ctx, slope):
        own = slope.new_empty(len(slope) // dist.get_world_size())
        dist.reduce_scatter_single(own, slope.contiguous())
        return own / dist.get_world_size()
class FSDP:
    def __init__(self, layer):
        self.layer, self.names = layer, [(n, p.shape) for n, p in layer.named_parameters()]
        row = torch.cat([p.detach().flatten() for p in layer.parameters()])
        size, rank = dist.get_world_size(), dist.get_rank()
        row = torch.cat([row, row.new_zeros(-len(row) % size)])
        self.shard = row.view(size, -1)[rank].clone().requires_grad_()
        for p in layer.parameters(): p.data = p.data.new_empty(0)
    def __call__(self, x):
        return checkpoint(self.run, x, self.shard, use_reentrant=False)
    def run(self, x, shard):
        row, found = Whole.apply(shard), {}
        for name, shape in self.names:
            found[name], row = row[: shape.numel()].view(shape), row[shape.numel():]
        return torch.func.functional_call(self.layer, found, (x,))
"""
HOOK = "        y.register_hook(self.gather)\n"
DIVIDES = "        self.shard.grad /= self.size\n"
CLEARS = "        for p in self.inside:\n            p.grad = None\n"
WAITS = "        if any(p.grad is None for p in self.inside):\n            return\n"
EMPTY = "        self.shard.grad = torch.empty_like(self.shard)\n"
BEGINS = "class FSDP(torch.nn.Module):\n"
NEXT = swapped(  # gathers the next layer while this one computes
    FSDP,
    (BEGINS, BEGINS + "    order = []\n"),
    (
        "        self.layer = layer\n",
        "        self.layer = layer\n        if layer.number == 0: FSDP.order = []\n"
        "        self.order, self.place, self.work = FSDP.order, layer.number, None\n"
        "        self.order.append(self)\n",
    ),
    (
        "    def gather(self, *_):\n"
        "        self.whole.untyped_storage().resize_(self.bytes)\n        " + GATHER,
        "    def begin(self):\n        if self.work is None:\n"
        "            self.whole.untyped_storage().resize_(self.bytes)\n"
        "            self.work = " + GATHER[:-1] + ", async_op=True)\n\n"
        "    def gather(self, way):\n        self.begin()\n        self.work.wait()\n"
        "        self.work = None\n        if 0 <= self.place + way < len(self.order):\n"
        "            self.order[self.place + way].begin()",
    ),
    ("self.gather()", "self.gather(1)"),
    ("y.register_hook(self.gather)", "y.register_hook(lambda _: self.gather(-1))"),
)
EVERY = [
    (BEGINS, BEGINS + "    order = []\n"),
    ("        self.layer = layer\n",
     "        self.layer = layer\n        if layer.number == 0: FSDP.order = []\n"
     "        self.order = FSDP.order\n        self.order.append(self)\n"),
]  # fmt: skip
RIGHT_FSDPS = {
    "as in the lesson": FSDP,
    "another tensor each time": SWAPPING,
    "recomputed": RECOMPUTED,
    "the next one meanwhile": NEXT,
    "all_to_all": swapped(
        FSDP, (REDUCES, "every = torch.empty_like(row); dist.all_to_all_single(every, row); "
               "self.shard.grad.copy_(every.view(self.size, -1).sum(0))"),
    ),
    "functional collectives": swapped(
        FSDP, FUNCTIONAL,
        (GATHER, "self.whole.copy_(funcol.all_gather_tensor("
         "self.shard.detach(), 0, dist.group.WORLD))"),
        (REDUCES, "self.shard.grad.copy_(funcol.reduce_scatter_tensor("
         "row, 'sum', 0, dist.group.WORLD))"),
    ),
    "a norm is summed": swapped(
        FSDP, (DIVIDES, DIVIDES + "        norm = self.shard.grad.sum(); dist.all_reduce(norm)\n"),
    ),
    "lists of pieces": swapped(
        FSDP, (GATHER, "dist.all_gather(list(self.whole.chunk(self.size)), self.shard.detach())"),
        (REDUCES, "dist.reduce_scatter(self.shard.grad, list(row.chunk(self.size)))"),
    ),
}  # fmt: skip
WRONG_FSDPS = {
    "no division": ([("        self.shard.grad /= self.size\n", "")], "the sum over the ranks"),
    "divided twice": ([("/= self.size", "/= self.size**2")], "divided by 2 twice"),
    "own gradients": (
        [(REDUCES, "self.shard.grad.copy_(row.chunk(self.size)[dist.get_rank()])")],
        "nothing was exchanged",
    ),
    "never freed": ([("resize_(0)", "resize_(self.bytes)")], "layer 1 was still whole"),
    "not freed after forward": (
        [("(x)\n        self.free()", "(x)")], "layer 1 was still whole",
    ),
    "not freed after backward": (
        [(FREES_LAST, "            p.grad = None\n")], "when its backward pass was over",
    ),
    "freed too early": (
        [("y = self.layer(x)\n        self.free()", "self.free()\n        y = self.layer(x)")],
        "freed too early",
    ),
    "not gathered for backward": (
        [("        y.register_hook(self.gather)\n", "")], "needs them once more",
    ),
    "room without numbers": (
        [("y.register_hook(self.gather)",
          "y.register_hook(lambda _: (self.whole.untyped_storage().resize_(self.bytes), "
          "self.whole.zero_(), None)[2])")],
        "brings no numbers",
    ),
    "gathered once": (
        [("        self.whole.untyped_storage().resize_(self.bytes)\n        dist",
          "        self.whole.untyped_storage().resize_(self.bytes)\n"
          "        if hasattr(self, 'kept'): self.whole.copy_(self.kept); return\n        dist"),
         (GATHER, GATHER + "\n        self.kept = self.whole.clone()")],
        "the parameters of the step before",
    ),
    "no clone": ([(".clone())", ")")], "A copy by .clone()"),
    "not cut": (
        [(CLONE, "whole.clone()"), (GATHER, "self.whole[:len(self.shard)] = self.shard.detach()")],
        "nothing is cut",
    ),
    "padding forgotten": ([("-len(whole) % self.size", "0")], "as few zeros"),
    "rounded down": ([("-len(whole) % self.size", "-(len(whole) % self.size)")], "do not divide"),
    "rank 0's piece": ([("chunk(self.size)[rank]", "chunk(self.size)[0]")], "rank 1 keeps piece 1"),
    "own piece alone": (
        [(GATHER, "self.whole.zero_(); "
          "self.whole.chunk(self.size)[dist.get_rank()].copy_(self.shard.detach())")],
        "only this rank's own numbers are right",
    ),
    "all_reduce": (
        [(REDUCES, "dist.all_reduce(row); "
          "self.shard.grad.copy_(row.chunk(self.size)[dist.get_rank()])")],
        "leaves whole gradients on every rank",
    ),
    "whole gradients kept": (
        [("p.grad = None", "p.grad = torch.zeros_like(p)"),
         ("ready(self, _):\n", "ready(self, _):\n        self.n = getattr(self, 'n', 0) + 1\n"),
         ("any(p.grad is None for p in self.inside)", "self.n % len(self.inside)")],
        "p.grad = None",
    ),
    "other orders": (
        [(REDUCES, f"{REDUCES} if dist.get_rank() or self.size < 2 else dist.barrier()")],
        "numbers), barrier(",
    ),
    "rank 0 only": (
        [("        self.shard.grad /= self.size\n",
          "        self.shard.grad /= self.size\n"
          "        if dist.get_rank(): self.shard.grad.zero_()\n")],
        "only rank 0 has the right gradients",
    ),
    "no gradient": (
        [("p.register_post_accumulate_grad_hook(self.ready)", "pass")], "shard.grad is None",
    ),
    "a copy for backward": (
        [(HOOK, "        y.register_hook(self.again)\n"),
         (GATHER, GATHER + "\n        self.kept = self.whole.clone()\n\n    def again(self, *_):\n"
          "        self.whole.untyped_storage().resize_(self.bytes)\n"
          "        self.whole.copy_(self.kept)")],
        "never in backward",
    ),
    "a copy kept": (
        [(GATHER, GATHER + "\n        self.kept = self.whole.clone()")],
        "`kept` still holds 24 numbers of layer 1",
    ),
    "gradients kept": (
        [(CLEARS, "        self.last = [p.grad for p in self.inside]\n" + CLEARS)],
        "`last` still holds 24 numbers",
    ),
    "a row of gradients kept": (
        [("row = pad(row", "self.row = row = pad(row")], "`row` still holds",
    ),
    "a view of the gradients": (
        [(EMPTY, "        self.shard.grad = row.chunk(self.size)[dist.get_rank()]\n")],
        "shard.grad is a view",
    ),
    "reduced and handed on": (
        [(REDUCES, "dist.reduce(row, 0); dist.broadcast(row, 0); "
          "self.shard.grad.copy_(row.chunk(self.size)[dist.get_rank()])")],
        "every rank gets 120 numbers of gradients",
    ),
    "waits for the last alone": (
        [(WAITS, "        if parameter is not self.inside[-1]:\n            return\n"),
         ("ready(self, _)", "ready(self, parameter)")],
        "Not all gradients are there yet",
    ),
    "frees with the first": ([(WAITS, "        self.free()\n" + WAITS)], "parameters are freed"),
    "all at once": (
        [*EVERY, ("        self.gather()\n",
                  "        if not self.whole.untyped_storage().nbytes():\n"
                  "            for one in self.order: one.gather()\n")],
        "layer 3 was whole already",
    ),
    "all at once in backward": (
        [*EVERY, ("y.register_hook(self.gather)", "y.register_hook(self.gather_all)"),
         ("    def forward(", "    def gather_all(self, *_):\n"
          "        if not self.whole.untyped_storage().nbytes():\n"
          "            for one in self.order: one.gather()\n\n    def forward(")],
        "layer 1 was whole already",
    ),
    "never cleared": ([(CLEARS, "")], "p.grad = None takes them away"),
    "zeroed": ([("p.grad = None", "p.grad.zero_()")], "p.grad = None takes them away"),
    "added up": (
        [(DIVIDES, DIVIDES + "        self.sum = getattr(self, 'sum', 0) + self.shard.grad\n"
          "        self.shard.grad = self.sum\n")],
        "step before is still in it",
    ),
    "divided by 4": ([("/= self.size", "/= 4")], "0.25 times the mean"),
    "last gap open": ([(REDUCES, "..."), (DIVIDES, "")], "no reduce_scatter was called"),
    "hook called": (
        [("y.register_hook(self.gather)", "y.register_hook(self.gather())")], "without ()",
    ),
    "returns nothing": ([("        return y\n", "")], "end with `return y`"),
    "hook returns": ([(GATHER, GATHER + "\n        return self.whole")], "and to return nothing"),
    "hook on the data": ([("y.register_hook", "x.register_hook")], "the layer's output"),
    "with history": ([("self.shard.detach())", "self.shard)")], ".detach() leaves it behind"),
    "x detached": ([("self.layer(x)", "self.layer(x.detach())")], "was x detached?"),
    "a broadcast": (
        [(REDUCES, "dist.broadcast(row, 0); "
          "self.shard.grad.copy_(row.chunk(self.size)[dist.get_rank()])"), (DIVIDES, "")],
        "those of rank 0 alone",
    ),
    "gathered in bf16": (
        [(GATHER, "low = self.whole.bfloat16(); "
          "dist.all_gather_single(low, self.shard.detach().bfloat16()); self.whole.copy_(low)")],
        "through bf16",
    ),
    "a shard in float32": ([(CLONE, CLONE + ".float()")], "the shard is torch.float32"),
    "never waited for": (
        [(REDUCES, REDUCES[:-1] + ", async_op=True)")], "nobody waited for reduce_scatter_single",
    ),
    "reduced to itself": (
        [(REDUCES, "part = row.chunk(self.size)[dist.get_rank()].clone(); "
          "dist.reduce(part, dist.get_rank()); self.shard.grad.copy_(part)")],
        "dst is the rank that gets the sum",
    ),
    "endless": ([("        y = self.layer(x)", "        while True: pass")], "never ends"),
    "PyTorch's own": (
        [(FSDP[FSDP.index("        super"):],
          "        super().__init__()\n        self.layer = layer\n"
          "    def forward(self, x): return self.layer(x)\n")],
        "needs an attribute `shard`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT_FSDPS)
def test_right_fsdps_pass(tried, capsys, name):
    lesson11.ex11_fsdp(tried(RIGHT_FSDPS[name], "fsdp"))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


@pytest.mark.many(4)
@pytest.mark.parametrize("name", WRONG_FSDPS)
def test_a_wrong_fsdp_is_told_its_mistake(tried, name):
    pairs, words = WRONG_FSDPS[name]
    assert words in hint_of(lesson11.ex11_fsdp, tried(swapped(FSDP, *pairs), "fsdp"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [(16000, "2 bytes for each"), (4000, "2 bytes for each"), (1000, "not bits"),
     (64000, "not bits"), (8000 / 3, "forward and backward"), (..., "Replace the ..."),
     (123, "P falls out")],
)  # fmt: skip
def test_wrong_numbers_of_tokens_meet_their_hint(workspace, answer, words):
    assert words in hint_of(lesson11.ex11_tokens, answer)


def test_the_number_of_tokens_is_taken_in_every_form(workspace):
    hold("tokens_needed", lesson11.ex11_tokens, 8000, [16000, 4000, 1000, 64000])
