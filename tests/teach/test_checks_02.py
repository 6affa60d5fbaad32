"""Lesson 02: rings and data parallelism of learners, on four real ranks, each with its hint."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from course_lib.teach.checks import lesson02

from .answers_to_try import hold
from .finished_runs import hint_of
from .own_trials import swapped

CHECKS = {
    "ring": lesson02.ex02_ring, "ddp": lesson02.ex02_ddp, "buckets": lesson02.ex02_buckets,
}  # fmt: skip

RING = """
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    pieces = tensor.view(-1).tensor_split(size)
    for step in range(2 * (size - 1)):
        going, coming = pieces[(rank - step) % size], pieces[(rank - step - 1) % size]
        arrived = torch.empty_like(coming)
        sending = dist.isend(going, after)
        dist.recv(arrived, before)
        sending.wait()
        if step < size - 1:
            coming += arrived
        else:
            coming.copy_(arrived)
"""

DDP = """
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)

    def forward(self, *inputs):
        return self.model(*inputs)

    def finish(self):
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
"""

BUCKETS = """
import torch
import torch.distributed as dist


class DDP(torch.nn.Module):
    MOST = 80  # numbers

    def __init__(self, model):
        super().__init__()
        self.model = model
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
        self.waiting, self.sent = [], []
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *inputs):
        return self.model(*inputs)

    def ready(self, parameter):
        self.waiting.append(parameter)
        if sum(p.numel() for p in self.waiting) >= self.MOST:
            self.send()

    def send(self):
        flat = torch.cat([p.grad.flatten() for p in self.waiting]) / dist.get_world_size()
        self.sent.append((dist.all_reduce(flat, async_op=True), flat, self.waiting))
        self.waiting = []

    def finish(self):
        if self.waiting:
            self.send()
        for work, flat, parameters in self.sent:
            work.wait()
            for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                p.grad.copy_(part.view_as(p))
        self.sent = []
"""


@pytest.mark.parametrize(
    ("text", "exercise"), [(RING, "ring"), (DDP, "ddp"), (BUCKETS, "ddp"), (BUCKETS, "buckets")]
)
def test_right_ones_pass(tried, capsys, text, exercise):
    CHECKS[exercise](tried(text, exercise))
    assert "equal to the serial result on 1, 2, 3 and 4 ranks" in capsys.readouterr().out


COPIES = "            coming.copy_(arrived)\n"
ROUND = """
    total, going = tensor.clone(), tensor.clone()
    for step in range(size - 1):
        arrived = torch.empty_like(going)
        sending = dist.isend(going, after)
        dist.recv(arrived, before)
        sending.wait()
        total += arrived
        going = arrived
    tensor.copy_(total)
"""
RANKS = "    rank, size = dist.get_rank(), dist.get_world_size()\n"
ISEND, WAITS = "sending = dist.isend(going, after)", "        sending.wait()\n"
IMPORT = (
    "import torch\n",
    ("import torch\nimport torch.distributed._functional_collectives as funcol\n"),
)
RECV = "        dist.recv(arrived, before)\n"
BOTH = "[dist.P2POp(dist.isend, going, after), dist.P2POp(dist.irecv, arrived, before)]"
HEAD = RING[: RING.index("def ")]
STAR = (
    HEAD
    + """def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    for other in range(1, size):
        arrived = torch.empty_like(tensor)
        dist.recv(arrived, other)
        tensor += arrived
    for other in range(1, size):
        dist.send(tensor, other)
"""
)
LINE_AND_BACK = (
    HEAD
    + """def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        arrived = torch.empty_like(tensor)
        dist.recv(arrived, rank - 1)
        tensor += arrived
    if rank < size - 1:
        dist.send(tensor, rank + 1)
        dist.recv(tensor, rank + 1)
    if rank > 0:
        dist.send(tensor, rank - 1)
"""
)
EVERYBODY = (
    HEAD
    + """def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    others = [other for other in range(size) if other != rank]
    works = [dist.isend(tensor.clone(), other) for other in others]
    for other in others:
        arrived = torch.empty_like(tensor)
        dist.recv(arrived, other)
        tensor += arrived
    for work in works:
        work.wait()
"""
)
FILES = (
    HEAD
    + """import os, time


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    files = [f"{__file__}-{size}-{tensor.numel()}-{other}" for other in range(size)]
    torch.save(tensor, files[rank] + ".begun")
    os.rename(files[rank] + ".begun", files[rank])
    while not all(os.path.exists(file) for file in files):
        time.sleep(0.001)
    tensor.copy_(sum(torch.load(file) for file in files))
"""
)
TWO_WAYS = (
    (
        RING.replace("(tensor)", "(tensor, way)")
        .replace("(rank + 1)", "(rank + way)")
        .replace("(rank - 1)", "(rank - way)")
        .replace("(rank - step)", "(rank - way * step)")
        .replace("(rank - step - 1)", "(rank - way * (step + 1))")
        .replace("def ring_all_reduce", "def one_way")
    )
    + """

def ring_all_reduce(tensor):
    for half, way in zip(tensor.view(-1).tensor_split(2), (1, -1)):
        one_way(half, way)
"""
)
THREADS = """        import threading
        sender = threading.Thread(target=dist.send, args=(going, after))
        sender.start()
"""
RIGHT_RINGS = {
    "returned": [
        ("pieces = tensor", "tensor = tensor.clone()\n    pieces = tensor"),
        (COPIES, COPIES + "    return tensor\n"),
    ],
    "one batch": [
        (ISEND, f"moves = {BOTH}"), (RECV, ""),
        (WAITS, "        for work in dist.batch_isend_irecv(moves):\n            work.wait()\n"),
    ],
    "threads": [("        " + ISEND + "\n", THREADS), (WAITS, "        sender.join()\n")],
    "ranks of the environment": [
        ("dist.get_rank(), dist.get_world_size()",
         "(int(__import__('os').environ[name]) for name in ('RANK', 'WORLD_SIZE'))"),
    ],
    "the other direction": [("- 1) % size\n    pieces", "+ 1) % size\n    pieces"),
                            ("(rank + 1) % size, (rank + 1)", "(rank - 1) % size, (rank + 1)"),
                            ("(rank - step) ", "(rank + step) "),
                            ("(rank - step - 1)", "(rank + step + 1)")],
    "two directions": [(RING, TWO_WAYS)],
    "waits at the end": [
        ("    for step", "    works = []\n    for step"),
        (ISEND, "works.append(dist.isend(going, after))"),
        (WAITS, ""), (COPIES, COPIES + "    for work in works:\n        work.wait()\n"),
    ],
    "ranks of a group": [(ISEND, "sending = dist.isend(going, group_dst=after)"),
                         ("recv(arrived, before)", "recv(arrived, group_src=before)")],
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", RIGHT_RINGS)
def test_right_rings_of_other_forms_pass(tried, name):
    lesson02.ex02_ring(tried(swapped(RING, *RIGHT_RINGS[name]), "ring"))


WRONG_RINGS = {
    "mean": ([(COPIES, COPIES + "    tensor /= size\n")], "this is the mean"),
    "second round adds": ([("coming.copy_(arrived)", "coming += arrived")], "more than once"),
    "first round only": (
        [("range(2 * (size - 1))", "range(size - 1)")], "the second does not hand it on",
    ),
    "a step too few": ([("(2 * (size - 1))", "(2 * (size - 1) - 1)")], "does not hand it on"),
    "all send first": (
        [(ISEND, "dist.send(going, after)"), (WAITS, "")], "isend starts sending and goes on",
    ),
    "all receive first": (
        [("        dist.recv(arrived, before)\n", ""),
         ("        " + ISEND, "        dist.recv(arrived, before)\n        " + ISEND)],
        "Every rank waits for a message that nobody sends",
    ),
    "no wrap": ([("(rank + 1) % size", "rank + 1")], "(rank + 1) % size"),
    "another name": (
        [("pieces = tensor", "tensor = tensor.clone()\n    pieces = tensor")],
        "`tensor = …` gives another tensor the name",
    ),
    "rank 0 only": ([(COPIES, COPIES + "    if rank: tensor.zero_()\n")], "only rank 0 has"),
    "all_reduce": (
        [(RANKS, "    return dist.all_reduce(tensor)\n    rank, size = 0, 1\n")], "written out",
    ),
    "whole tensor round": ([(RING[RING.index("    pieces") :], ROUND)], "3 times the tensor"),
    "chunk": ([("tensor_split(size)", "chunk(size)")], "tensor_split(n) always makes n"),
    "split": ([("tensor_split(size)", "split(size)")], "24 numbers in 2 pieces"),
    "float32": ([(COPIES, COPIES + "    return tensor.float()\n")], "float64"),
    "flat": ([(COPIES, COPIES + "    return tensor.view(-1)\n")], "shape"),
    "a star": ([(RING, STAR)], "rank 0: 3, rank 1: 1, rank 2: 1, rank 3: 1"),
    "a line": ([(RING, LINE_AND_BACK)], "rank 0: 1, rank 1: 2, rank 2: 2, rank 3: 1"),
    "all to all": ([(RING, EVERYBODY)], "each sent 3 times the tensor, in 3 messages"),
    "by files": ([(RING, FILES)], "the rest came another way"),
    "functional": (
        [(COPIES, COPIES + "    size = 1\n"
          "    tensor.copy_(funcol.all_reduce(tensor, 'avg', dist.group.WORLD))\n"),
         IMPORT],
        "It calls all_reduce, which",
    ),
    "of the group": (
        [(RANKS, "    dist.group.WORLD.allreduce([tensor]).wait()\n    rank, size = 0, 1\n")],
        "It calls all_reduce, which",
    ),
    "barriers": ([(WAITS, WAITS + "        dist.barrier()\n")], "A ring needs no meeting of all"),
    "float32 buffer": ([("empty_like(coming)", "empty(coming.shape)")], "8 bytes each, and rank"),
    "2n - 1 steps": ([("2 * (size - 1)", "2 * size - 1")], "is a message to itself: on one rank"),
    "waits first": ([(RECV, ""), (WAITS, WAITS + RECV)], "first recv, then wait()"),
    "no wait": ([("sending = ", ""), (WAITS, "")], "nobody waited for isend(12 numbers, to 1)"),
    "the last dropped": ([(WAITS, "")], "nobody waited for isend("),
    "irecv dropped": ([("dist.recv(", "dist.irecv(")],
                      "nobody waited for irecv(12 numbers, from 1"),
    "rows": ([("tensor.view(-1).tensor_split(size)", "tensor.tensor_split(size, dim=-1)")],
             "do not lie in one row"),
    "float32 inside": (
        [("pieces = tensor", "whole = tensor.float()\n    pieces = whole"),
         (COPIES, COPIES + "    tensor.copy_(whole)\n")],
        "through float32",
    ),
    "no remainder": (
        [("tensor_split(size)", "split(max(1, tensor.numel() // size))[:size]")],
        "the last 1 of 29 still hold this rank's own",
    ),
    "neighbours swapped": (
        [("(rank + 1) % size, (rank - 1) % size", "(rank - 1) % size, (rank + 1) % size")],
        "the direction of the ring and the order of the pieces belong together",
    ),
    "rebound": ([("coming += arrived", "coming = coming + arrived")], "no piece is a sum"),
    "onto itself": ([("torch.empty_like(coming)", "coming")], "written over the piece"),
    "halves": ([("coming += arrived", "coming += arrived / 2")], "divided on the way"),
    "one piece more": ([("tensor_split(size)", "tensor_split(size + 1)")],
                       "24 numbers in 2 pieces"),
    "local rank": (
        [("rank, size = dist.get_rank()",
          "rank, size = int(__import__('os').environ['LOCAL_RANK'])")],
        "Rank 2 calls recv(8 numbers, from 2): that is itself",
    ),
    "other tags": ([("going, after", "going, after, tag=rank"),
                    ("before)\n", "before, tag=rank)\n")],
                   "Rank 0 sends with tag 0, and rank 1 waits for one with tag 1"),
    "only rank 0": (
        [("    for step", "    if rank:\n        return\n    for step")],
        "this rank has neither sent nor received",
    ),
    "three arguments": ([("(tensor):", "(tensor, rank, size):")],
                        "with one tensor and nothing else"),
    "own group": ([("def ring", "dist.init_process_group('gloo')\n\n\ndef ring")],
                  "leave init_process_group out"),
    "from anybody": ([("recv(arrived, before)", "recv(arrived)")], "Name the rank"),
}  # fmt: skip


@pytest.mark.many(8)
@pytest.mark.parametrize("name", WRONG_RINGS)
def test_a_wrong_ring_is_told_its_mistake(tried, name):
    pairs, words = WRONG_RINGS[name]
    assert words in hint_of(lesson02.ex02_ring, tried(swapped(RING, *pairs), "ring"))


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
WRONG_DDPS = {
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
    "torch's own": ([(DDP[DDP.index("        super") :], TORCHS_OWN)], "PyTorch's own"),
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
RIGHT_DDPS = {
    "world size of the environment": [
        ("dist.get_world_size()", "int(__import__('os').environ['WORLD_SIZE'])"),
    ],
    "functional": [
        (SUMS + DIVIDES, "                parameter.grad = "
         f"funcol.all_reduce(parameter.grad, 'avg', {WORLD}) + 0\n"),
        IMPORT,
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


@pytest.mark.many(3)
@pytest.mark.parametrize("name", RIGHT_DDPS)
def test_right_ddps_of_other_forms_pass(tried, name):
    lesson02.ex02_ddp(tried(swapped(DDP, *RIGHT_DDPS[name]), "ddp"))


@pytest.mark.many(8)
@pytest.mark.parametrize("name", WRONG_DDPS)
def test_a_wrong_ddp_is_told_its_mistake(tried, name):
    pairs, words = WRONG_DDPS[name]
    assert words in hint_of(lesson02.ex02_ddp, tried(swapped(DDP, *pairs), "ddp"))


ASYNC, WORK = "dist.all_reduce(flat, async_op=True)", "            work.wait()\n"
CLASS = "class DDP("
HOOKS = BUCKETS[
    BUCKETS.index("        for parameter in model.par") : BUCKETS.index("\n    def forward")
]
SENT = "\n        self.sent = []\n"
WAITED = "def waited_for(work):\n    work.wait()\n    return work\n\n\n"
ASKED = WAITED.replace("work.wait()", "while not work.is_completed(): pass")
THREAD_OF = """def thread_of(flat):
    import threading
    thread = threading.Thread(target=dist.all_reduce, args=(flat,))
    thread.start()
    return thread


"""
WRONG_BUCKETS = {
    "all after backward": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if False:")],
        "All calls come after backward",
    ),
    "blocking": ([(ASYNC, "dist.all_reduce(flat)"), (WORK, "")], "async_op=True"),
    "one each": ([("MOST = 80", "MOST = 1")], "Every call costs its latency"),
    "the rest is not sent": (
        [("        if self.waiting:\n            self.send()\n", "")],
        "What is left is sent in finish()",
    ),
    "not copied back": ([("p.grad.copy_(part.view_as(p))", "pass")], "copy it back"),
    "other buckets": ([(">= self.MOST:", ">= self.MOST + 50 * dist.get_rank():")], "same order"),
    "waits at once": ([(ASYNC + ",", "waited_for(" + ASYNC + "),"), (CLASS, WAITED + CLASS)],
                      "waited for when 2 of 6 gradients were there"),
    "waits for the one before": (
        [("        self.sent.append", "        if self.sent:\n            self.sent[-1][0].wait()\n"
          "        self.sent.append")],
        "waited for when 4 of 6 gradients were there",
    ),
    "asks until it is through": (
        [(ASYNC + ",", "waited_for(" + ASYNC + "),"), (CLASS, ASKED + CLASS)],
        "gradients were there: backward stands still",
    ),
    "a future at once": (
        [(ASYNC + ",", "waited_for(" + ASYNC + ".get_future()),"), (CLASS, WAITED + CLASS)],
        "gradients were there: backward stands still",
    ),
    "the group's, at once": (
        [(ASYNC + ",", f"waited_for({WORLD}.allreduce([flat])),"), (CLASS, WAITED + CLASS)],
        "a call was begun, and waited for when",
    ),
    "functional, used at once": (
        [(ASYNC + ", flat", f"None, funcol.all_reduce(flat, 'sum', {WORLD}) + 0"), (WORK, ""),
         IMPORT],
        "a call was begun, and waited for when",
    ),
    "no wait": ([(WORK, "")], "nobody waited for all_reduce(90 numbers)"),
    "the last alone": (
        [(WORK, ""),
         ("        for work, flat", "        self.sent[-1][0].wait()\n        for work, flat")],
        "nobody waited for all_reduce(90 numbers)",
    ),
    "sent grows": ([(SENT, "\n\n\n")], "Is a list never emptied?"),
    "hooks anew": (
        [(HOOKS, ""), ("        return self.model(", HOOKS.replace("in model", "in self.model") +
                       "        return self.model(")],
        "Are hooks registered anew in each forward?",
    ),
    "hooks twice": ([("(self.ready)\n", "(self.ready)\n" + HOOKS.splitlines(True)[-1])],
                    "sent more than once"),
    "no work": ([(ASYNC, "dist.all_reduce(flat)")],
                "without async_op=True a collective returns None"),
    "cleared": ([("        self.waiting = []\n\n", "        self.waiting.clear()\n\n")],
                "empties the very list that was kept"),
    "hook before": (
        [("register_post_accumulate_grad_hook(self.ready)",
          "register_hook(lambda grad, p=parameter: self.ready(p))")],
        "A hook by register_hook runs before the gradient",
    ),
    "hook called": ([("hook(self.ready)", "hook(self.ready(parameter))"), ("= 80", "= 1")],
                    "A hook is the function itself"),
    "all hooked": ([("if parameter.requires_grad:", "if True:")], "takes no hook"),
    "parameters counted": ([("sum(p.numel() for p in self.waiting)", "len(self.waiting)")],
                           "one of 243 numbers, so no bucket was full before"),
    "in the last hook": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if len(self.waiting) == 6:")],
        "The first call comes when all 6 gradients are there",
    ),
    "the other order": ([("in zip(parameters", "in zip(parameters[::-1]")],
                        "The parts lie in the bucket in the order"),
    "the last hook's parameter": (
        [("hook(self.ready)", "hook(lambda _: self.ready(parameter))")],
        "54 numbers were summed, and there are 243 gradients",
    ),
    "by threads": (
        [(ASYNC, "thread_of(flat)"), (WORK, "            work.join()\n"),
         (CLASS, THREAD_OF + CLASS)],
        ("Calls come from several threads", "in the same order"),
    ),
}  # fmt: skip
SCATTERED = """n = dist.get_world_size()
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % n))
        mine = torch.empty(len(flat) // n, dtype=flat.dtype)
        work = dist.reduce_scatter_tensor(mine, flat, async_op=True)
        self.sent.append((work, mine, self.waiting))
"""
GATHERED = """            mine = flat
            flat = torch.empty(len(mine) * dist.get_world_size(), dtype=mine.dtype)
            dist.all_gather_into_tensor(flat, mine)
            flat = flat[: sum(p.numel() for p in parameters)]
"""
APPENDS = f"self.sent.append(({ASYNC}, flat, self.waiting))\n"
RIGHT_BUCKETS = {
    "async by its place": [(ASYNC, "dist.all_reduce(flat, dist.ReduceOp.SUM, None, True)")],
    "reduce_scatter and all_gather": [(APPENDS, SCATTERED), (WORK, WORK + GATHERED)],
    "functional": [
        (ASYNC + ", flat", f"None, funcol.all_reduce(flat, 'sum', {WORLD})"),
        (WORK, "            flat = funcol.wait_tensor(flat)\n"),
        IMPORT,
    ],
    "a future": [(ASYNC, ASYNC + ".get_future()")],
    "of the group": [(ASYNC, f"{WORLD}.allreduce([flat])")],
    "asks in finish": [(WORK, "            while not work.is_completed(): pass\n")],
    "a list": [(ASYNC, "dist.all_reduce_coalesced([flat], async_op=True)")],
}  # fmt: skip


@pytest.mark.many(4)
@pytest.mark.parametrize("name", RIGHT_BUCKETS)
def test_right_buckets_of_other_forms_pass(tried, name):
    lesson02.ex02_buckets(tried(swapped(BUCKETS, *RIGHT_BUCKETS[name]), "buckets"))


@pytest.mark.many(5)
@pytest.mark.parametrize("name", WRONG_BUCKETS)
def test_wrong_buckets_are_told_their_mistake(tried, name):
    pairs, words = WRONG_BUCKETS[name]
    run = tried(swapped(BUCKETS, *pairs), "buckets")
    hint = hint_of(lesson02.ex02_buckets, run)
    assert any(one in hint for one in ([words] if isinstance(words, str) else words))


HOSTILE = {
    "def ring_all_reduce(tensor:\n": "SyntaxError, line 1",
    "import no_such_module\n": "No module named 'no_such_module'",
    "import sys\nsys.exit(3)\n": "It ends the program (sys.exit, line 2)",
    "def ring(tensor): pass\n": "The name has to be ring_all_reduce",
    "while True: pass\n": "It does not come to an end: at line 1",
    "def ring_all_reduce(tensor):\n    while True: pass\n": "a loop that never ends",
    "def ring_all_reduce(tensor):\n    while True: print('x' * 999)\n": "printed more than 256 KiB",
    "def ring_all_reduce(tensor):\n    exit()\n": "ends the program",
    "def ring_all_reduce(tensor):\n    import os; os._exit(0)\n": "ended before",
    "def ring_all_reduce(tensor):\n    import os; os.kill(os.getpid(), 9)\n": "ended before",
    "def ring_all_reduce(tensor):\n    import os; os.fork()\n": "the tensor is what it was",
    "def ring_all_reduce(tensor):\n    1 / 0\n": "ZeroDivisionError",
    "def ring_all_reduce():\n    pass\n": "TypeError",
    "ring_all_reduce = 3\n": "The name has to be ring_all_reduce",
}


@pytest.mark.many(3)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_file_is_told_what_it_does(tried, text):
    assert HOSTILE[text] in hint_of(lesson02.ex02_ring, tried(text, "ring"))


def test_rank_22_on_eight_nodes_with_four_devices(workspace, capsys):
    lesson02.ex02_ranks(5, 2, 32, 1)
    lesson02.ex02_ranks(5.0, np.int64(2), Fraction(32), 1)
    assert "✓ rank 22 is on that node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ((..., 2, 32, 1), "Replace the ..."),
        ((6, 2, 32, 1), "counted from 0"),
        ((2, 2, 32, 1), "4 ranks, not 8"),
        ((5.5, 2, 32, 1), "22 // 4"),
        ((5, 3, 32, 1), "counted from 0"),
        ((5, 22, 32, 1), "rank among all"),
        ((5, 6, 32, 1), "4 ranks, not 8"),
        ((5, 2, 8, 1), "These are the nodes"),
        ((5, 2, 32, 32), "what all_reduce leaves"),
        ((5, 2, 32, 8), "one node"),
        ((5, 2, 32, float("nan")), "not finite"),
    ],
)
def test_wrong_ranks_meet_their_hint(workspace, answers, words):
    assert words in hint_of(lesson02.ex02_ranks, *answers)


def test_each_number_is_taken_in_every_form(workspace):
    def with_answer(**given):
        known = {"node": 5, "local_rank": 2, "world_size": 32, "numbers": 1}
        lesson02.ex02_ranks(**{**known, **given})

    hold("world_size", lambda answer: with_answer(world_size=answer), 32, [8, 4, 12])
    hold("node", lambda answer: with_answer(node=answer), 5, [6, 2, 5.5])
    hold("local_rank", lambda answer: with_answer(local_rank=answer), 2, [3, 22, 6])
    hold("numbers", lambda answer: with_answer(numbers=answer), 1, [32, 8, 4])
