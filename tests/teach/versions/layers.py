"""Layers of 13.2 to 13.4: the lesson's solutions, other right solutions, and wrong ones with
hints."""

from __future__ import annotations

from ..own_trials import program_of

CELLS = {"column": "column-own", "row": "row-own", "attention": "tokens-own"}
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
BODY = PROGRAMS["attention"][PROGRAMS["attention"].index("        normed =") :]
HEADS_OF = """        normed = layer_norm(x, x.shape[-1:], self.scale, self.shift)
        return x + Heads.apply(normed, self.qkv, self.out)

    def finish(self):
        both = torch.stack([self.scale.grad, self.shift.grad])
        dist.all_reduce(both)
        self.scale.grad, self.shift.grad = both


def attended(x, qkv, out):
    q, k, v = torch.einsum("tw,khdw->khtd", x, qkv)
    seen = scaled_dot_product_attention(q, k, v, is_causal=True)
    return torch.einsum("htd,whd->tw", seen, out)


class Heads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mine, qkv, out):
        ctx.save_for_backward(mine, qkv, out)
        return own_tokens(attended(all_tokens(mine), qkv, out))

    @staticmethod
    def backward(ctx, grad):
        mine, *weights = ctx.saved_tensors
        given = [one.detach().requires_grad_() for one in (all_tokens(mine), *weights)]
        with torch.enable_grad():
            y = attended(*given)
        whole, *rest = torch.autograd.grad(y, given, all_tokens(grad))
        return own_tokens(whole), *rest
"""
AT_ONCE = """        normed = layer_norm(x, x.shape[-1:], self.scale, self.shift)
        q, k, v = torch.einsum("tw,khdw->khtd", GatherTokens.apply(normed), self.qkv)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + ScatterTokens.apply(torch.einsum("htd,whd->tw", seen, self.out))

    def finish(self):
        works = [dist.all_reduce(one.grad, async_op=True) for one in (self.scale, self.shift)]
        for work in works:
            work.wait()
"""
BY_HAND = """        centred = x - x.mean(1, keepdim=True)
        spread = (centred.square().mean(1, keepdim=True) + 1e-5).rsqrt()
        normed = centred * spread * self.scale + self.shift
        every = GatherTokens.apply(normed)
        later = torch.ones(len(every), len(every)).triu(1).bool()
        y = torch.zeros_like(every)
        for head in range(self.qkv.shape[1]):
            q, k, v = (every @ self.qkv[part, head].T for part in range(3))
            scores = (q @ k.T / q.shape[1] ** 0.5).masked_fill(later, float("-inf"))
            y = y + scores.softmax(1) @ v @ self.out[:, head].T
        return ScatterTokens.apply(y) + x

    def finish(self):
        for name in ("scale", "shift"):
            total = getattr(self, name).grad.clone()
            dist.all_reduce(total)
            getattr(self, name).grad.copy_(total)
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
    "the right attention": ("attention", []),
    "one that gathers once more": ("attention", [(BODY, HEADS_OF)]),
    "sums at the same time": ("attention", [(BODY, AT_ONCE)]),
    "head by head": ("attention", [(BODY, BY_HAND)]),
}  # fmt: skip


REDUCES = "        total = grad.clone()\n        dist.all_reduce(total)\n        return total\n"
GATHERED = """y = torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y.detach())
        parts[dist.get_rank()] = y
        return torch.cat(parts, -1)"""
WRONG_COLUMNS = {
    "in place": ([(REDUCES, "        dist.all_reduce(grad)\n        return grad\n")],
                 "changes its argument in place"),
    "the first weight kept": (
        [(APPLIED, "if not hasattr(self, 'first'):\n            self.first = self.weight * 1\n"
          f"        {APPLIED.replace('self.weight', 'self.first')}")], "right in the first step",
    ),
    "the next slice": ([("chunk(size, 0)[rank]", "chunk(size, 0)[(rank + 1) % size]")],
                       "this is piece 1. Rank 0 keeps piece 0"),
    "no all-reduce in backward": (
        [(REDUCES, "        return grad\n")], "does its backward return the all-reduced copy",
    ),
    "CopyIn left out": ([("CopyIn.apply(x)", "x")], "Does forward use CopyIn.apply"),
    "the wrong dimension": (
        [("chunk(size, 0)", "chunk(size, 1)")],
        "the weight is cut along the wrong dimension",
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
        "the bias is added 2 times",
    ),
    "bias divided": (
        [("torch.nn.Parameter(bias.clone())", "torch.nn.Parameter(bias / size)"),
         ("SumOut.apply(x @ self.weight.T) + self.bias",
          "SumOut.apply(x @ self.weight.T + self.bias)")],
        "moves the bias 2 times as far",
    ),
    "summed in backward too": (
        [("        return grad\n", REDUCES)], "is 2 times the right one",
    ),
    "divided in backward": (
        [("        return grad\n", "        return grad / dist.get_world_size()\n")],
        "is 0.5 times the right one",
    ),
    "the wrong dimension": (
        [("chunk(size, 1)", "chunk(size, 0)")],
        "the weight is cut along the wrong dimension",
    ),
    "mean in forward": ([("return total\n", "return total / dist.get_world_size()\n")],
                        "the sum of the ranks is divided"),
    "backward returns nothing": ([("return grad\n", "return None\n")], "Is a return missing"),
}  # fmt: skip
LEAVES = "return x + ScatterTokens.apply("
CUT = "chunk(dist.get_world_size())[dist.get_rank()]"
SCATTERED = "dist.reduce_scatter_single(mine, whole.contiguous())"
SUMS = "for parameter in (self.scale, self.shift):\n            dist.all_reduce(parameter.grad)"
WRONG_ATTENTION = {
    "not cut": ([("qkv.chunk(size, 1)[rank]", "qkv")], "every rank holds all heads"),
    "a view": ([("qkv.chunk(size, 1)[rank].clone()", "qkv.chunk(size, 1)[rank]")], ".clone()"),
    "cut as a row": (
        [("qkv.chunk(size, 1)[rank]",
          "qkv.flatten(0, 1).chunk(size)[rank].view(3, -1, *qkv.shape[2:])")],
        "does rank r keep, send and take piece r"),
    "no parameter": ([("self.out = torch.nn.Parameter(", "self.out = (")], "does not learn"),
    "not summed": ([(SCATTERED, f"mine.copy_(whole.{CUT})")], "Cutting alone does not"),
    "all tokens": (
        [(LEAVES, "y = ("), ("self.out))\n", "self.out))\n        dist.all_reduce(y)\n"
          "        return GatherTokens.apply(x) + y\n")], "the result has the shape"),
    "no residual": ([(LEAVES, "return ScatterTokens.apply(")], "x plus attention of the norm"),
    "the residual before the sum": (
        [(LEAVES, "return ScatterTokens.apply(GatherTokens.apply(x) + ")],
        "Add the residual after the sum"),
    "a residual without gradient": ([(LEAVES, "return x.detach() + ScatterTokens.apply(")],
                                    "the residual passes dy on"),
    "no norm": ([("GatherTokens.apply(normed)", "GatherTokens.apply(x)")],
                "x plus attention of the norm"),
    "bare norm": ([(", self.scale, self.shift)", ")")], "the norm has scale and shift"),
    "the norm as residual": ([(LEAVES, LEAVES.replace("x +", "normed +"))],
                             "x plus attention of the norm"),
    "no root": ([("is_causal=True", "is_causal=True, scale=1.0")],
                "by the root of the head's width"),
    "averaged in backward": (
        [("return own_tokens(dy)", "return own_tokens(dy) / dist.get_world_size()")],
        "Backward needs no division"),
    "no mask": ([("is_causal=True", "is_causal=False")], "positions look ahead"),
    "a sum and a cut": (
        [(SCATTERED, f"dist.all_reduce(whole := whole.clone()); mine.copy_(whole.{CUT})")],
        "leaves each rank its own tokens"),
    "cut in backward": ([("return own_tokens(dy)", f"return dy.{CUT}")],
                        "from the heads of this rank alone"),
    "no functions": ([("GatherTokens.apply", "all_tokens"), ("ScatterTokens.apply", "own_tokens")],
                     "unknown to autograd"),
    "not finished": ([(SUMS, "pass")], "finish must add up the gradients of all ranks"),
    "all summed": ([("(self.scale, self.shift):", "self.parameters():")],
                   "Each rank has its own heads"),
    "mean": ([(SUMS, SUMS + "\n            parameter.grad /= dist.get_world_size()")],
             "Is a sum or a division by"),
    "no return": ([(LEAVES, "x + ScatterTokens.apply(")], "Is a return missing"),
}  # fmt: skip
WRONG = {
    f"{exercise}: {name}": (exercise, *told)
    for exercise, some in (
        ("column", WRONG_COLUMNS), ("row", WRONG_ROWS), ("attention", WRONG_ATTENTION),
    )
    for name, told in some.items()
}  # fmt: skip
