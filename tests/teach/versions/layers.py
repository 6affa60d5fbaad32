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
    "a sum in two halves": ("column", [("        dist.all_reduce(total)\n", IN_HALVES)]),
    "the right row": ("row", []),
    "the bias on rank 0 alone": (
        "row",
        [("torch.nn.Parameter(bias.clone())", "None if rank else torch.nn.Parameter(bias.clone())"),
         (SUMMED, ON_RANK_0)],
    ),
    "the right tokens": ("tokens", []),
    "one that gathers once more": (
        "tokens", [(PROGRAMS["tokens"], PROGRAMS["tokens"] + GATHERS_AGAIN)],
    ),
}  # fmt: skip


REDUCES = "        total = grad.clone()\n        dist.all_reduce(total)\n        return total\n"
GATHERED = """y = torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y.detach())
        parts[dist.get_rank()] = y
        return torch.cat(parts, -1)"""
WRONG_COLUMNS = {
    "in place": ([(REDUCES, "        dist.all_reduce(grad)\n        return grad\n")],
                 "changes in place what came to it"),
    "the first weight kept": (
        [(APPLIED, "if not hasattr(self, 'first'):\n            self.first = self.weight * 1\n"
          f"        {APPLIED.replace('self.weight', 'self.first')}")], "right in the first step",
    ),
    "the next slice": ([("chunk(size, 0)[rank]", "chunk(size, 0)[(rank + 1) % size]")],
                       "in one order everywhere"),
    "no all-reduce in backward": (
        [(REDUCES, "        return grad\n")], "look for the all-reduce in backward",
    ),
    "the wrong dimension": (
        [("chunk(size, 0)", "chunk(size, 1)")],
        "it is cut along the other dimension",
    ),
    "not cut": ([("weight.chunk(size, 0)[rank]", "weight")], "every rank holds the whole"),
    "a view": ([("[rank].clone())\n        self.bias", "[rank])\n        self.bias")], ".clone()"),
    "weights under no_grad": (
        [(APPLIED, f"with torch.no_grad():\n            {APPLIED}")], "Autograd does not allow",
    ),
}  # fmt: skip
WRONG_ROWS = {
    "no all-reduce in forward": (
        [("SumOut.apply(x @ self.weight.T)", "x @ self.weight.T")],
        "look for the all-reduce in forward",
    ),
    "bias on every rank": (
        [("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "it contains the bias 2 times",
    ),
    "bias divided": (
        [("torch.nn.Parameter(bias.clone())", "torch.nn.Parameter(bias / size)"),
         ("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "moves it 2 times as far",
    ),
    "summed in backward too": (
        [("        return grad\n", REDUCES)], "backward needs no sum",
    ),
    "the wrong dimension": (
        [("chunk(size, 1)", "chunk(size, 0)")],
        "it is cut along the other dimension",
    ),
    "backward returns nothing": ([("return grad\n", "return None\n")], "is it not connected"),
}  # fmt: skip
WRONG_TOKENS = {
    "not summed": (
        [(SCATTERED,
          "mine.copy_(x.chunk(dist.get_world_size())[dist.get_rank()])")],
        "cutting is not enough",
    ),
    "cut in backward": (
        [("return scatter(grad)",
          "return grad.chunk(dist.get_world_size())[dist.get_rank()]")],
        "a reduce-scatter, not a cut",
    ),
    "all tokens": (
        [("return ScatterTokens.apply(torch.nn.functional.gelu(whole @ a.T) @ b.T)",
          "y = torch.nn.functional.gelu(whole @ a.T) @ b.T\n    dist.all_reduce(y)\n    return y")],
        "all tokens are here",
    ),
    "backward of scatter returns its own": ([("return gather(grad)", "return grad")],
                                            "Print their shapes"),
}  # fmt: skip
WRONG = {
    f"{exercise}: {name}": (exercise, *told)
    for exercise, some in (
        ("column", WRONG_COLUMNS), ("row", WRONG_ROWS), ("tokens", WRONG_TOKENS),
    )
    for name, told in some.items()
}  # fmt: skip
