"""FSDP of lesson 11: the lesson's solution, other right solutions, and wrong ones with their
hints."""

from __future__ import annotations

from ..own_trials import swapped

PROGRAM = """
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

GATHER = "dist.all_gather_single(self.whole, self.shard.detach())"
REDUCES = "dist.reduce_scatter_single(self.shard.grad, row)"
FREES_LAST = "            p.grad = None\n        self.free()\n"
SWAPPING = swapped(
    PROGRAM, ("self.whole.untyped_storage().resize_(0)",
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
CLEARS = "        for p in self.inside:\n            p.grad = None\n"
EMPTY = "        self.shard.grad = torch.empty_like(self.shard)\n"
RIGHT = {
    "as in the lesson": PROGRAM,
    "another tensor each time": SWAPPING,
    "recomputed": RECOMPUTED,
    "lists of pieces": swapped(
        PROGRAM,
        (GATHER, "dist.all_gather(list(self.whole.chunk(self.size)), self.shard.detach())"),
        (REDUCES, "dist.reduce_scatter(self.shard.grad, list(row.chunk(self.size)))"),
    ),
}  # fmt: skip
WRONG = {
    "a hook of two arguments": (
        [("def gather(self, *_)", "def gather(self, module, grad)"),
         ("        self.gather()\n", "        self.gather(None, None)\n")],
        "calls a hook with one argument"),
    "a hook that returns": ([(GATHER, GATHER + "\n        return self.whole")],
                            "without a return"),
    "free as a hook": ([(HOOK, HOOK.replace("gather", "free"))], "calls a hook with one argument"),
    "hook on x": ([(HOOK, HOOK.replace("y.", "x."))], "A hook belongs on what the layer returns"),
    "no division": ([("        self.shard.grad /= self.size\n", "")], "Is a sum or a division by"),
    "never freed": ([("resize_(0)", "resize_(self.bytes)")], "a copy of it was not freed"),
    "not freed after forward": (
        [("(x)\n        self.free()", "(x)")], "too many are held",
    ),
    "not freed after backward": (
        [(FREES_LAST, "            p.grad = None\n")], "too many are held",
    ),
    "freed too early": (
        [("y = self.layer(x)\n        self.free()", "self.free()\n        y = self.layer(x)")],
        "freed too early",
    ),
    "not gathered for backward": (
        [("        y.register_hook(self.gather)\n", "")], "Backward needs the layer once more",
    ),
    "room without numbers": (
        [("y.register_hook(self.gather)",
          "y.register_hook(lambda _: (self.whole.untyped_storage().resize_(self.bytes), "
          "self.whole.zero_(), None)[2])")],
        "gathered again before backward",
    ),
    "no clone": ([(".clone())", ")")], "a copy by .clone()"),
    "padding forgotten": ([("-len(whole) % self.size", "0")], "as few zeros"),
    "all_reduce": (
        [(REDUCES, "dist.all_reduce(row); "
          "self.shard.grad.copy_(row.chunk(self.size)[dist.get_rank()])")],
        "whole gradients on every rank",
    ),
    "no gradient": (
        [("p.register_post_accumulate_grad_hook(self.ready)", "pass")], "shard.grad is None",
    ),
    "a view of the gradients": (
        [(EMPTY, "        self.shard.grad = row.chunk(self.size)[dist.get_rank()]\n")],
        "a copy by .clone()",
    ),
    "never cleared": ([(CLEARS, "")], "p.grad = None"),
}  # fmt: skip
