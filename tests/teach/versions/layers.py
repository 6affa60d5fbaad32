"""Layers of 13.1 to 13.3 to try: the lesson's, other right ones, wrong ones with hints."""

from __future__ import annotations

from ..own_trials import program_of

CELLS = {
    "column": "column-own", "row": "row-own", "tokens": "tokens-own", "schedule": "order-own",
}  # fmt: skip
PROGRAMS = {
    exercise: program_of("13_parallel_layers_by_hand", cell) for exercise, cell in CELLS.items()
}


APPLIED = "return torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)"
HOOKED = """x = x.view_as(x)
        x.register_hook(lambda grad: dist.all_reduce(total := grad.clone()) or total)
        return x @ self.weight.T + self.bias"""
SUMMED = "return SumOut.apply(x @ self.weight.T) + self.bias"
ON_RANK_0 = """y = x @ self.weight.T
        return SumOut.apply(y if self.bias is None else y + self.bias)"""
IN_HALVES = """        mine = total.new_empty(total.numel() // dist.get_world_size())
        dist.reduce_scatter_tensor(output=mine, input=total.flatten())
        dist.all_gather_into_tensor(output_tensor=total.view(-1), input_tensor=mine)
"""
RING = """        rank, size = dist.get_rank(), dist.get_world_size()
        going = grad.clone()
        for _ in range(size - 1):
            coming = torch.empty_like(going)
            sending = dist.isend(going, (rank + 1) % size)
            dist.recv(coming, (rank - 1) % size)
            sending.wait()
            total, going = total + coming, coming
"""
GATHERED = "dist.all_gather_single(whole, x.contiguous())"
SCATTERED = "dist.reduce_scatter_single(mine, x.contiguous())"
GATHERS_AGAIN = """

class GatherTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return gather(x) @ a.T

    @staticmethod
    def backward(ctx, grad):
        x, a = ctx.saved_tensors
        return scatter(grad @ a), grad.T @ gather(x)


def split_mlp(x, a, b):
    return ScatterTokens.apply(torch.nn.functional.gelu(GatherTokens.apply(x, a)) @ b.T)
"""
RIGHT = {
    "the right column": ("column", []),
    "a hook in the place of a function": ("column", [(APPLIED, HOOKED)]),
    "a slice by its indices": (
        "column",
        [("weight.chunk(size, 0)[rank]",
          "weight[rank * len(weight) // size : (rank + 1) * len(weight) // size]")],
    ),
    "a sum in two halves": ("column", [("        dist.all_reduce(total)\n", IN_HALVES)]),
    "a ring of messages": ("column", [("        dist.all_reduce(total)\n", RING)]),
    "the right row": ("row", []),
    "a reduce and a broadcast": (
        "row", [("dist.all_reduce(total)", "dist.reduce(total, 0)\n        "
                 "dist.broadcast(total, 0)")],
    ),
    "the bias on the last rank alone": (
        "row",
        [("torch.nn.Parameter(bias.clone())",
          "torch.nn.Parameter(bias.clone()) if rank == size - 1 else None"),
         (SUMMED, ON_RANK_0)],
    ),
    "summed in place, unseen by autograd": (
        "row", [(SUMMED, "y = x @ self.weight.T\n        dist.all_reduce(y)\n"
                 "        return y + self.bias")],
    ),
    "the bias on rank 0 alone": (
        "row",
        [("torch.nn.Parameter(bias.clone())", "None if rank else torch.nn.Parameter(bias.clone())"),
         (SUMMED, ON_RANK_0)],
    ),
    "the right tokens": ("tokens", []),
    "one that gathers once more": (
        "tokens", [(PROGRAMS["tokens"], PROGRAMS["tokens"] + GATHERS_AGAIN)],
    ),
    "keywords, input first": (
        "tokens", [(SCATTERED, "dist.reduce_scatter_single(input=x.contiguous(), output=mine)")],
    ),
    "by the older names": (
        "tokens",
        [(GATHERED, "dist.all_gather_into_tensor(whole, x.contiguous())"),
         (SCATTERED, "dist.reduce_scatter_tensor(mine, x.contiguous())")],
    ),
    "a reduce for each rank": (
        "tokens",
        [(SCATTERED, "for rank, piece in enumerate(x.clone().chunk(dist.get_world_size())):\n"
          "        dist.reduce(piece, rank)\n        if rank == dist.get_rank():\n"
          "            mine.copy_(piece)")],
    ),
    "lists of tensors": (
        "tokens",
        [(GATHERED,
          "dist.all_gather(list(whole.chunk(dist.get_world_size())), x.contiguous())"),
         (SCATTERED,
          "dist.reduce_scatter(mine, list(x.contiguous().chunk(dist.get_world_size())))")],
    ),
}  # fmt: skip


REDUCES = "        total = grad.clone()\n        dist.all_reduce(total)\n        return total\n"
GATHERED = """y = torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y.detach())
        parts[dist.get_rank()] = y
        return torch.cat(parts, -1)"""
OF_WEIGHT = "self.weight = torch.nn.Parameter(weight.chunk(size, 0)[rank].clone())"
OF_BIAS = "torch.nn.Parameter(bias.chunk(size)[rank].clone())"
GROWS = """        ctx.owner.total = ctx.owner.total + grad
        total = ctx.owner.total.clone()
        dist.all_reduce(total)
        return total, None
"""
AT_THE_TOP = "import torch.distributed as dist\n\nSIZE = dist.get_world_size()\n"
WRONG_COLUMNS = {
    "a bias that is no parameter": (
        [(OF_BIAS, "bias.chunk(size)[rank].clone().requires_grad_()")], "no torch.nn.Parameter",
    ),
    "a frozen weight": ([("[rank].clone())\n        self.bias", "[rank].clone(), requires_grad="
                          "False)\n        self.bias")], "it is frozen"),
    "the whole kept beside": ([(OF_WEIGHT, OF_WEIGHT + "\n        self.whole = weight")],
                              "4.84 times its slices"),
    "a bias that is a view": ([(OF_BIAS, OF_BIAS.replace(".clone()", ""))], "1.12 times"),
    "in place": ([(REDUCES, "        dist.all_reduce(grad)\n        return grad\n")],
                 "changes in place what came to it"),
    "the first weight kept": (
        [(APPLIED, "if not hasattr(self, 'first'):\n            self.first = self.weight * 1\n"
          f"        {APPLIED.replace('self.weight', 'self.first')}")], "right in the first step",
    ),
    "a sum that grows": (
        [(REDUCES, GROWS), ("def forward(ctx, x):\n", "def forward(ctx, x, owner):\n        "
          "ctx.owner = owner\n"), ("CopyIn.apply(x)", "CopyIn.apply(x, self)"),
         ("super().__init__()", "super().__init__()\n        self.total = 0")],
        "right in the first step",
    ),
    "summed a copy": ([("dist.all_reduce(total)", "dist.all_reduce(total.clone())")],
                      "what it has summed up is not what is used"),
    "float32": ([("total = grad.clone()", "total = grad.float()")], "float32, or less"),
    "the next slice": ([("chunk(size, 0)[rank]", "chunk(size, 0)[(rank + 1) % size]")],
                       "holds the slice of rank 1"),
    "the size at the top": ([("import torch.distributed as dist\n", AT_THE_TOP)],
                            "imported before the ranks have met"),
    "no all-reduce in backward": (
        [(REDUCES, "        return grad\n")], "the all-reduce in backward is missing",
    ),
    "summed twice": (
        [(REDUCES, REDUCES.replace("return", "dist.all_reduce(total)\n        return"))],
        "the gradient was summed twice",
    ),
    "a mean": ([("return total\n", "return total / dist.get_world_size()\n")], "not averaged"),
    "rank 0 only": (
        [("dist.all_reduce(total)", "dist.reduce(total, 0)")], "Every rank needs it",
    ),
    "the wrong dimension": ([("chunk(size, 0)", "chunk(size, 1)")], "cut along the inputs"),
    "transposed": ([("weight.chunk(size, 0)[rank]", "weight.chunk(size, 0)[rank].T")],
                   "it is transposed"),
    "not cut": ([("weight.chunk(size, 0)[rank]", "weight")], "every rank holds the whole"),
    "the first slice": ([("weight.chunk(size, 0)[rank]", "weight.chunk(size, 0)[0]")],
                        "Where does `rank` enter"),
    "every so many": ([("weight.chunk(size, 0)[rank]", "weight[rank::size]")], "takes neighbours"),
    "a view": ([("[rank].clone())\n        self.bias", "[rank])\n        self.bias")], ".clone()"),
    "a bias that is whole": ([("bias.chunk(size)[rank]", "bias")], "One number for each output"),
    "no bias": ([("self.weight, self.bias)", "self.weight)")], "the bias is missing"),
    "no CopyIn": ([("CopyIn.apply(x)", "x")], "the all-reduce in backward is missing"),
    "gathered": ([(APPLIED, GATHERED)], "gathered where nobody needs them"),
    "summed forward": (
        [("return x.view_as(x)", "return dist.all_reduce(y := x.clone()) or y / "
          "dist.get_world_size()")], "In forward it calls all_reduce; nothing has to travel",
    ),
    "no parameter": ([("torch.nn.Parameter(weight", "(weight")], "no torch.nn.Parameter"),
    "detached": ([("CopyIn.apply(x), self", "CopyIn.apply(x).detach(), self")], "it is None"),
    "weights under no_grad": (
        [(APPLIED, f"with torch.no_grad():\n            {APPLIED}")], "Nothing leads back",
    ),
}  # fmt: skip
WRONG_ROWS = {
    "what all_reduce returns": (
        [("        dist.all_reduce(total)\n        return total\n",
          "        return dist.all_reduce(total)\n")], "changes its tensor in place",
    ),
    "detached": ([("T) + self", "T).detach() + self")], "nothing leads from y back to x"),
    "zeros elsewhere": (
        [("bias.clone()", "bias.clone() if rank == 0 else torch.zeros_like(bias)"),
         (SUMMED, "return SumOut.apply(x @ self.weight.T + self.bias)")], "it is zero here",
    ),
    "a mean of all": ([(SUMMED, f"{SUMMED.replace('return ', 'return (')}) / "
                        "dist.get_world_size()")], "the bias as well"),
    "to itself": ([("        dist.all_reduce(total)\n", RING.replace("grad.clone()", "x.clone()")
                    .replace("size - 1", "size"))], "is a message to itself"),
    "no all-reduce in forward": (
        [("SumOut.apply(x @ self.weight.T)", "x @ self.weight.T")],
        "the all-reduce in forward is missing",
    ),
    "bias on every rank": (
        [("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "the bias is in it 2 times",
    ),
    "bias divided": (
        [("torch.nn.Parameter(bias.clone())", "torch.nn.Parameter(bias / size)"),
         ("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "moves it 2 times as far",
    ),
    "summed in backward too": (
        [("        return grad\n", REDUCES)], "a sum in backward that is not needed",
    ),
    "torch's function": (
        [("SumOut.apply(", "torch.distributed.nn.functional.all_reduce("),
         ("import torch\n", "import torch\nimport torch.distributed.nn.functional\n")],
        "a sum in backward that is not needed",
    ),
    "the wrong dimension": ([("chunk(size, 1)", "chunk(size, 0)")], "cut along the outputs"),
    "rank 0 only": ([("dist.all_reduce(total)", "dist.reduce(total, 0)")], "only rank 0 has"),
    "a bias that is cut": ([("bias.clone()", "bias.chunk(size)[rank]")], "it is cut"),
    "cut again": ([("SumOut.apply(x @", "SumOut.apply(x.chunk(2, -1)[0] @")], "a slice already"),
    "cut outputs": (
        [("self.weight.T) + self.bias", "self.weight.T).chunk(4, -1)[0]")], "has shape",
    ),
    "no bias": ([("T) + self.bias", "T)")], "the bias is missing"),
    "backward returns nothing": ([("return grad\n", "return None\n")], "what does backward return"),
}  # fmt: skip
WRONG_TOKENS = {
    "the tokens of the next": ([("return scatter(x)", "return scatter(torch.roll(x, -(len(x) // "
                                 "dist.get_world_size()), 0))")], "the tokens of rank 1"),
    "tokens kept": ([("return gather(x)\n", "kept = KEPT.setdefault(dist.get_world_size(), "
                      "gather(x))\n        return kept.clone()\n"),
                     ("class GatherTokens", "KEPT = {}\n\n\nclass GatherTokens")],
                    "right in the first step"),
    "gradients of slices summed": (
        [("    whole = GatherTokens.apply(x)\n", "    for one in (a, b):\n        one.register_"
          "hook(lambda g: dist.all_reduce(t := g.clone()) or t)\n"
          "    whole = GatherTokens.apply(x)\n")],
        "the gradients of all slices were added up",
    ),
    "not summed": (
        [(SCATTERED,
          "mine.copy_(x.chunk(dist.get_world_size())[dist.get_rank()])")],
        "the partial sums have to be added",
    ),
    "cut in backward": (
        [("return scatter(grad)",
          "return grad.chunk(dist.get_world_size())[dist.get_rank()]")],
        "a reduce-scatter, not a cut",
    ),
    "all-reduce forward": (
        [("return scatter(x)",
          "return dist.all_reduce(x := x.clone()) or x.chunk(dist.get_world_size())"
          "[dist.get_rank()]")],
        "An all-gather and a reduce-scatter are half of it each",
    ),
    "all tokens": (
        [("return ScatterTokens.apply(torch.nn.functional.gelu(whole @ a.T) @ b.T)",
          "y = torch.nn.functional.gelu(whole @ a.T) @ b.T\n    dist.all_reduce(y)\n    return y")],
        "all tokens are here",
    ),
    "backward of scatter returns its own": ([("return gather(grad)", "return grad")],
                                            "where forward gathers"),
}  # fmt: skip
WRONG = {
    f"{exercise}: {name}": (exercise, *told)
    for exercise, some in (
        ("column", WRONG_COLUMNS), ("row", WRONG_ROWS), ("tokens", WRONG_TOKENS),
    )
    for name, told in some.items()
}  # fmt: skip
