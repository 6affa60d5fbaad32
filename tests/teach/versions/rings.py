"""Rings of exercise 02.2 to try: the lesson's, other right ones, wrong ones with their hint."""

from __future__ import annotations

from ..own_trials import FUNCOL, program_of

PROGRAM = program_of("02_many_processes", "ring-file")

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
RECV = "        dist.recv(arrived, before)\n"
BOTH = "[dist.P2POp(dist.isend, going, after), dist.P2POp(dist.irecv, arrived, before)]"
HEAD = PROGRAM[: PROGRAM.index("def ")]
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
        PROGRAM.replace("(tensor)", "(tensor, way)")
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
RIGHT = {
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
    "two directions": [(PROGRAM, TWO_WAYS)],
    "waits at the end": [
        ("    for step", "    works = []\n    for step"),
        (ISEND, "works.append(dist.isend(going, after))"),
        (WAITS, ""), (COPIES, COPIES + "    for work in works:\n        work.wait()\n"),
    ],
    "ranks of a group": [(ISEND, "sending = dist.isend(going, group_dst=after)"),
                         ("recv(arrived, before)", "recv(arrived, group_src=before)")],
}  # fmt: skip


WRONG = {
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
    "whole tensor round": ([(PROGRAM[PROGRAM.index("    pieces") :], ROUND)], "3 times the tensor"),
    "chunk": ([("tensor_split(size)", "chunk(size)")], "tensor_split(n) always makes n"),
    "split": ([("tensor_split(size)", "split(size)")], "24 numbers in 2 pieces"),
    "float32": ([(COPIES, COPIES + "    return tensor.float()\n")], "float64"),
    "flat": ([(COPIES, COPIES + "    return tensor.view(-1)\n")], "shape"),
    "a star": ([(PROGRAM, STAR)], "rank 0: 3, rank 1: 1, rank 2: 1, rank 3: 1"),
    "a line": ([(PROGRAM, LINE_AND_BACK)], "rank 0: 1, rank 1: 2, rank 2: 2, rank 3: 1"),
    "all to all": ([(PROGRAM, EVERYBODY)], "each sent 3 times the tensor, in 3 messages"),
    "by files": ([(PROGRAM, FILES)], "the rest came another way"),
    "functional": (
        [(COPIES, COPIES + "    size = 1\n"
          "    tensor.copy_(funcol.all_reduce(tensor, 'avg', dist.group.WORLD))\n"),
         FUNCOL],
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
