"""FSDP of exercise 11 to try: the lesson's, other right ones, wrong ones with their hint."""

from __future__ import annotations

from ..own_trials import FUNCOL, swapped

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

CLONE = "self.whole.chunk(self.size)[rank].clone()"
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
DIVIDES = "        self.shard.grad /= self.size\n"
CLEARS = "        for p in self.inside:\n            p.grad = None\n"
WAITS = "        if any(p.grad is None for p in self.inside):\n            return\n"
EMPTY = "        self.shard.grad = torch.empty_like(self.shard)\n"
BEGINS = "class FSDP(torch.nn.Module):\n"
NEXT = swapped(  # gathers the next layer while this one computes
    PROGRAM,
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
RIGHT = {
    "as in the lesson": PROGRAM,
    "another tensor each time": SWAPPING,
    "recomputed": RECOMPUTED,
    "the next one meanwhile": NEXT,
    "all_to_all": swapped(
        PROGRAM, (REDUCES, "every = torch.empty_like(row); dist.all_to_all_single(every, row); "
               "self.shard.grad.copy_(every.view(self.size, -1).sum(0))"),
    ),
    "functional collectives": swapped(
        PROGRAM, FUNCOL,
        (GATHER, "self.whole.copy_(funcol.all_gather_tensor("
         "self.shard.detach(), 0, dist.group.WORLD))"),
        (REDUCES, "self.shard.grad.copy_(funcol.reduce_scatter_tensor("
         "row, 'sum', 0, dist.group.WORLD))"),
    ),
    "a norm is summed": swapped(
        PROGRAM,
        (DIVIDES, DIVIDES + "        norm = self.shard.grad.sum(); dist.all_reduce(norm)\n"),
    ),
    "lists of pieces": swapped(
        PROGRAM,
        (GATHER, "dist.all_gather(list(self.whole.chunk(self.size)), self.shard.detach())"),
        (REDUCES, "dist.reduce_scatter(self.shard.grad, list(row.chunk(self.size)))"),
    ),
}  # fmt: skip
WRONG = {
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
        [(PROGRAM[PROGRAM.index("        super"):],
          "        super().__init__()\n        self.layer = layer\n"
          "    def forward(self, x): return self.layer(x)\n")],
        "needs an attribute `shard`",
    ),
}  # fmt: skip
