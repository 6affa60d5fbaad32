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


def test_right_rings_of_other_forms_pass(tried):
    """A result that is returned; sends and receives in one batch."""
    returned = swapped(
        RING, ("pieces = tensor", "tensor = tensor.clone()\n    pieces = tensor"),
        (COPIES, COPIES + "    return tensor\n"),
    )  # fmt: skip
    both = "[dist.P2POp(dist.isend, going, after), dist.P2POp(dist.irecv, arrived, before)]"
    batched = swapped(
        RING, (ISEND, f"moves = {both}"), ("        dist.recv(arrived, before)\n", ""),
        (WAITS, "        for work in dist.batch_isend_irecv(moves):\n            work.wait()\n"),
    )  # fmt: skip
    for text in (returned, batched):
        lesson02.ex02_ring(tried(text, "ring"))


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
    "split": ([("tensor_split(size)", "split(size)")], "ranks are missing"),
    "float32": ([(COPIES, COPIES + "    return tensor.float()\n")], "float64"),
    "flat": ([(COPIES, COPIES + "    return tensor.view(-1)\n")], "shape"),
}  # fmt: skip


@pytest.mark.many(4)
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
}  # fmt: skip


@pytest.mark.many(4)
@pytest.mark.parametrize("name", WRONG_DDPS)
def test_a_wrong_ddp_is_told_its_mistake(tried, name):
    pairs, words = WRONG_DDPS[name]
    assert words in hint_of(lesson02.ex02_ddp, tried(swapped(DDP, *pairs), "ddp"))


ASYNC, WORK = "dist.all_reduce(flat, async_op=True)", "            work.wait()\n"
WRONG_BUCKETS = {
    "all after backward": (
        [("if sum(p.numel() for p in self.waiting) >= self.MOST:", "if False:")],
        "All calls come after backward",
    ),
    "blocking": ([(ASYNC, "dist.all_reduce(flat)"), (WORK, "")], "async_op=True"),
    "one each": ([("MOST = 80", "MOST = 1")], "Every call costs its latency"),
    "the rest is not sent": (
        [("        if self.waiting:\n            self.send()\n", "")],
        "what is left is sent in finish()",
    ),
    "not copied back": ([("p.grad.copy_(part.view_as(p))", "pass")], "nothing was exchanged"),
    "other buckets": ([(">= self.MOST:", ">= self.MOST + 50 * dist.get_rank():")], "same order"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_BUCKETS)
def test_wrong_buckets_are_told_their_mistake(tried, name):
    pairs, words = WRONG_BUCKETS[name]
    run = tried(swapped(BUCKETS, *pairs), "buckets")
    assert words in hint_of(lesson02.ex02_buckets, run)


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
