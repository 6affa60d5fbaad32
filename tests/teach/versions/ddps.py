"""DDP of exercise 02.3 to try: the lesson's, other right ones, wrong ones with hints."""

from __future__ import annotations

from ..own_trials import FUNCOL, program_of

PROGRAM = program_of("02_many_processes", "ddp-file")

SUMS = "                dist.all_reduce(parameter.grad)\n"
DIVIDES = "                parameter.grad /= dist.get_world_size()\n"
LOOP = "        for parameter in self.model.parameters():\n"
SORTED = "sorted(self.model.parameters(), key=lambda p: p.numel() * (-1) ** dist.get_rank())"
TORCHS_OWN = """        super().__init__()
        self.torchs = torch.nn.parallel.DistributedDataParallel(model)
    def forward(self, x): return self.torchs(x)
    def finish(self): pass
"""
IF_THERE = "            if parameter.grad is not None:\n"
MEAN_WEIGHTS = (SUMS + DIVIDES).replace("parameter.grad", "parameter.data")
WRONG = {
    "no division": ([(DIVIDES, "")], "not divided by the number of ranks"),
    "divided twice": ([("get_world_size()", "get_world_size() ** 2")], "divided by 2 twice"),
    "summed twice": ([(SUMS, SUMS + SUMS)], "summed twice"),
    "no broadcast": (
        [("            dist.broadcast(tensor, src=0)\n", "            pass\n")],
        "the broadcast is missing",
    ),
    "buffers forgotten": (
        [("model.state_dict().values()", "model.parameters()"),
         ("dist.broadcast(tensor", "dist.broadcast(tensor.data")],
        "offset still this rank's own",
    ),
    "nothing exchanged": ([(SUMS + DIVIDES, "                pass\n")], "nothing was exchanged"),
    "rank 0 only": (
        [("dist.all_reduce(parameter.grad)", "dist.reduce(parameter.grad, 0)")],
        "only rank 0 has the right gradients",
    ),
    "frozen": ([("if parameter.grad is not None:", "if True:")], "A frozen parameter"),
    "one parameter": (
        [("self.model.parameters():", "list(self.model.parameters())[:3]:")], "of 6 parameters:",
    ),
    "other orders": ([("self.model.parameters():", f"{SORTED}:")], "rank 1: all_reduce("),
    "rank 0 leaves early": (
        [(LOOP, "        if dist.get_rank() == 0: return\n" + LOOP)], "rank 0: nothing more",
    ),
    "avg": (
        [("dist.all_reduce(parameter.grad)", "dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)")],
        "divided by 2 twice",
    ),
    "each its own source": ([("src=0", "src=dist.get_rank()")], "the same on every rank"),
    "a barrier on one rank": (
        [(LOOP, "        if dist.get_rank() == 0: dist.barrier()\n" + LOOP)], "rank 0: barrier(",
    ),
    "leaf in place": (
        [("dist.broadcast(tensor, src=0)", "pass\n        for p in model.parameters(): p *= 1.0")],
        "torch.no_grad()",
    ),
    "torch's own": ([(PROGRAM[PROGRAM.index("        super") :], TORCHS_OWN)], "PyTorch's own"),
    "torch's own, averaged again": (
        [("self.model = model\n",
          "self.model = torch.nn.parallel.DistributedDataParallel(model)\n")],
        "PyTorch's own",
    ),
    "replicate": (
        [("self.model = model\n", "self.model = model\n        self.torchs = replicate(model)\n"),
         ("import torch\n", "import torch\n"
          "from torch.distributed._composable.replicate import replicate\n"),
         ("return self.model", "return self.torchs"), (SUMS + DIVIDES, "                pass\n")],
        "was called by none of your lines, in backward",
    ),
    "the last work alone": (
        [(SUMS + DIVIDES, "                work = dist.all_reduce(parameter.grad, async_op=True)\n"
          "        work.wait()\n" + LOOP + IF_THERE + DIVIDES)],
        "nobody waited for all_reduce(gradient of first.weight)",
    ),
    "no result": ([("return self.model", "self.model")], "gave no tensor but NoneType"),
    "float32": (
        [(SUMS, "                g = parameter.grad.float()\n                dist.all_reduce(g)\n"
          "                parameter.grad.copy_(g)\n")],
        "through float32",
    ),
    "a copy": ([("dist.all_reduce(parameter.grad)", "dist.all_reduce(parameter.grad.clone())")],
               "still this rank's own, divided by 2, though all_reduce(54 numbers)"),
    "the weights": ([(SUMS + DIVIDES, MEAN_WEIGHTS)],
                    "all_reduce(first.weight) was called, and that is a weight"),
    "rank 0 divides": (
        [(DIVIDES, "                if dist.get_rank() == 0:\n    " + DIVIDES)],
        "Here: this is the sum over the ranks",
    ),
    "none left": ([(DIVIDES, DIVIDES + "                parameter.grad = None\n")],
                  "were there after backward, and are None after finish()"),
    "zeroed": ([(DIVIDES, DIVIDES + "                parameter.grad.zero_()\n")],
               "the gradients are zero after finish()"),
    "steps itself": (
        [(DIVIDES, DIVIDES + "                parameter.data -= 0.1 * parameter.grad\n")],
        "changed between forward and the end of finish()",
    ),
    "clones": ([("model.state_dict().values()",
                 "[t.clone() for t in model.state_dict().values()]")],
               "though broadcast(9 numbers) was called"),
    "a copy trains": (
        [("self.model = model\n", "self.model = __import__('copy').deepcopy(model)\n"),
         ("in model.state", "in self.model.state")],
        "Is it a copy that computes?",
    ),
    "summed over steps": (
        [("self.model = model\n", "self.model, self.kept = model, {}\n"),
         (DIVIDES, DIVIDES + "                before = self.kept.get(parameter, 0)\n"
          "                self.kept[parameter] = before + parameter.grad\n"
          "                parameter.grad = self.kept[parameter].clone()\n")],
        "the mean of this step and of the step before",
    ),
    "broadcasts gradients": (
        [("dist.all_reduce(parameter.grad)", "dist.broadcast(parameter.grad, src=0)"),
         (DIVIDES, "")],
        "broadcast hands on the numbers of one rank",
    ),
    "weights of the last": ([("src=0", "src=dist.get_world_size() - 1")], "are those of rank 1"),
    "mean weights": (
        [("            dist.broadcast(tensor, src=0)\n",
          "            dist.all_reduce(tensor)\n            tensor /= dist.get_world_size()\n")],
        "are the mean over the ranks",
    ),
    "only the buffer": ([("model.state_dict().values()", "model.buffers()")], "leaves them out"),
    "thawed": ([("= model\n", "= model.requires_grad_(True)\n")], "It is to stay frozen"),
    "inputs of rank 0": (
        [("        return self", "        dist.broadcast(inputs[0], src=0)\n        return self")],
        "in forward broadcast(18 numbers) was called",
    ),
    "averaged twice": ([(DIVIDES, DIVIDES + SUMS + DIVIDES)], "they are sent more than once"),
    "kept for ever": (
        [("self.model = model\n", "self.model, self.kept = model, []\n"),
         (DIVIDES, DIVIDES + "                self.kept.append(parameter.grad.clone())\n")],
        "Is a list never emptied?",
    ),
    "no finish": ([("def finish", "def finalize")], "The trial calls finish()"),
    "own group": ([("self.model = model\n",
                    "self.model = model\n        dist.init_process_group()\n")],
                  "leave init_process_group out"),
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
    "functional": [
        (SUMS + DIVIDES, "                parameter.grad = "
         f"funcol.all_reduce(parameter.grad, 'avg', {WORLD}) + 0\n"),
        FUNCOL,
    ],
    "reduce_scatter and all_gather": [
        (LOOP + IF_THERE + SUMS + DIVIDES, FLAT),
    ],
    "by objects": [
        (SUMS + DIVIDES, "                parts = [None] * dist.get_world_size()\n"
         "                dist.all_gather_object(parts, parameter.grad)\n"
         "                parameter.grad.copy_(torch.stack(parts).mean(0))\n"),
    ],
    "in hooks": [
        ("self.model = model\n", "self.model = model\n        for p in model.parameters():\n"
         "            if p.requires_grad:\n                p.register_hook(self.mean)\n"),
        (LOOP + IF_THERE + SUMS + DIVIDES,
         "        pass\n\n    def mean(self, grad):\n        total = grad / dist.get_world_size()\n"
         "        dist.all_reduce(total)\n        return total\n"),
    ],
    "a list at once": [
        (SUMS + DIVIDES, "                dist.all_reduce_coalesced([parameter.grad])\n" + DIVIDES),
    ],
    "a loss beside": [(LOOP, "        dist.all_reduce(torch.ones(1))\n" + LOOP)],
}  # fmt: skip
