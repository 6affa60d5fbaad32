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
RIGHT_ZEROS = {
    "as in the lesson": ZERO1,
    "other collectives": swapped(ZERO1, (SCATTERS, REDUCE_TO_EACH), (GATHERS, BROADCASTS)),
    "parameter by parameter": PER_PARAMETER,
    "in place, older names": swapped(
        ZERO1, ("reduce_scatter_single", "reduce_scatter_tensor"),
        ("all_gather_single", "all_gather_into_tensor"),
        (WRITES, "p.data = whole[start : start + p.numel()].view_as(p)"),
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
           "for p in self.inside: p.data = p.data.new_empty(0)"),
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
RIGHT_FSDPS = {
    "as in the lesson": FSDP,
    "another tensor each time": SWAPPING,
    "recomputed": RECOMPUTED,
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
    "padding forgotten": ([("-len(whole) % self.size", "0")], "filled up with zeros"),
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
