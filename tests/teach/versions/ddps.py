"""DDP of exercise 02.3: the lesson's solution, other right solutions, and wrong ones with their
hints."""

from __future__ import annotations

from ..own_trials import program_of

PROGRAM = program_of("02_many_processes", "ddp-file")

SUMS = "                dist.all_reduce(parameter.grad)\n"
DIVIDES = "                parameter.grad /= dist.get_world_size()\n"
LOOP = "        for parameter in self.model.parameters():\n"
TORCHS_OWN = """        super().__init__()
        self.torchs = torch.nn.parallel.DistributedDataParallel(model)
    def forward(self, x): return self.torchs(x)
    def finish(self): pass
"""
IF_THERE = "            if parameter.grad is not None:\n"
WRONG = {
    "divided on rank 0": (
        [(DIVIDES, "                if not dist.get_rank():\n    " + DIVIDES)],
        "only rank 0 has the right result, but every rank needs it. On this rank, the result is 2 "
        "times the right one",
    ),
    "reduced to rank 0": (
        [("all_reduce(parameter.grad)", "reduce(parameter.grad, dst=0)")],
        "only rank 0 has the right result, but every rank needs it. On this rank, dist.reduce "
        "leaves the result on one rank, and dist.all_reduce leaves it on all ranks.",
    ),
    "no division": ([(DIVIDES, "")], "Is a sum or a division by"),
    "summed twice": ([(SUMS, SUMS + SUMS)], "sum 486 numbers, and there are 243"),
    "no broadcast": (
        [("            dist.broadcast(tensor, src=0)\n", "            pass\n")],
        "All ranks must call the broadcast",
    ),
    "buffers forgotten": (
        [("model.state_dict().values()", "model.parameters()"),
         ("dist.broadcast(tensor", "dist.broadcast(tensor.data")],
        "offset of 8: ",
    ),
    "nothing exchanged": ([(SUMS + DIVIDES, "                pass\n")], "calls are: nothing"),
    "weights averaged at the end": (
        [(SUMS + DIVIDES, (SUMS + DIVIDES).replace("grad", "data"))], "exchange other numbers",
    ),
    "gradients of rank 0": (
        [(SUMS + DIVIDES, SUMS.replace("all_reduce", "broadcast").replace(")", ", 0)"))],
        "all ranks have the numbers of rank 0 alone",
    ),
    "each rank its own root": ([("src=0", "src=dist.get_rank()")], "the same src or dst"),
    "frozen": ([("if parameter.grad is not None:", "if True:")], "A frozen parameter never"),
    "zeros for the frozen one": (
        [("            if parameter.grad is not None:\n",
          "            if parameter.grad is None:\n"
          "                parameter.grad = torch.zeros_like(parameter)\n            if True:\n")],
        "the frozen parameter got a gradient",
    ),
    "rank 0 leaves early": (
        [(LOOP, "        if dist.get_rank() == 0: return\n" + LOOP)], "rank 0: nothing more",
    ),
    "torch's own": (
        [(PROGRAM[PROGRAM.index("        super") :], TORCHS_OWN)],
        "uses torch.nn.parallel.DistributedDataParallel",
    ),
    "the last work alone": (
        [(SUMS + DIVIDES, "                work = dist.all_reduce(parameter.grad, async_op=True)\n"
          "        work.wait()\n" + LOOP + IF_THERE + DIVIDES)],
        "this rank did not wait for one of these calls: all_reduce(",
    ),
    "summed over steps": (
        [("self.model = model\n", "self.model, self.kept = model, {}\n"),
         (DIVIDES, DIVIDES + "                before = self.kept.get(parameter, 0)\n"
          "                self.kept[parameter] = before + parameter.grad\n"
          "                parameter.grad = self.kept[parameter].clone()\n")],
        "still contains the gradient of the previous step",
    ),
}  # fmt: skip
WORLD = "dist.group.WORLD"
FLAT = """        ready = [p for p in self.model.parameters() if p.grad is not None]
        row = torch.cat([p.grad.view(-1) for p in ready]) / dist.get_world_size()
        row = torch.nn.functional.pad(row, (0, -len(row) % dist.get_world_size()))
        mine = torch.empty(len(row) // dist.get_world_size(), dtype=row.dtype)
        dist.reduce_scatter_tensor(mine, row)
        dist.all_gather_into_tensor(row, mine)
        sizes = [p.numel() for p in ready]
        for p, part in zip(ready, row[: sum(sizes)].split(sizes)):
            p.grad = part.view_as(p).clone()
"""
RIGHT = {
    "world size of the environment": [
        ("dist.get_world_size()", "int(__import__('os').environ['WORLD_SIZE'])"),
    ],
    "reduce_scatter and all_gather": [
        (LOOP + IF_THERE + SUMS + DIVIDES, FLAT),
    ],
    "in hooks": [
        ("self.model = model\n", "self.model = model\n        for p in model.parameters():\n"
         "            if p.requires_grad:\n                p.register_hook(self.mean)\n"),
        (LOOP + IF_THERE + SUMS + DIVIDES,
         "        pass\n\n    def mean(self, grad):\n        total = grad / dist.get_world_size()\n"
         "        dist.all_reduce(total)\n        return total\n"),
    ],
    "a loss beside": [(LOOP, "        dist.all_reduce(torch.ones(1))\n" + LOOP)],
}  # fmt: skip
