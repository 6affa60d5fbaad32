"""Rings of exercise 02.2: the lesson's solution, other right solutions, and wrong ones with their
hints."""

from __future__ import annotations

from ..own_trials import program_of

PROGRAM = program_of("02_many_processes", "ring-file")
HEAD = PROGRAM[: PROGRAM.index("def ")]

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
THREADS = """        import threading
        sender = threading.Thread(target=dist.send, args=(going, after))
        sender.start()
"""
RIGHT = {
    "threads": [("        " + ISEND + "\n", THREADS), (WAITS, "        sender.join()\n")],
    "the other direction": [("- 1) % size\n    pieces", "+ 1) % size\n    pieces"),
                            ("(rank + 1) % size, (rank + 1)", "(rank - 1) % size, (rank + 1)"),
                            ("(rank - step) ", "(rank + step) "),
                            ("(rank - step - 1)", "(rank + step + 1)")],
}  # fmt: skip


WRONG = {
    "returned": (
        [("pieces = tensor", "tensor = tensor.clone()\n    pieces = tensor"),
         (COPIES, COPIES + "    return tensor\n")],
        "Change it in place",
    ),
    "second round adds": (
        [("coming.copy_(arrived)", "coming += arrived")], "the second round copies",
    ),
    "first round only": (
        [("range(2 * (size - 1))", "range(size - 1)")], "the second round copies",
    ),
    "all send first": (
        [(ISEND, "dist.send(going, after)"), (WAITS, "")],
        "ranks 0, 1 wait in send, and each of them waits for another",
    ),
    "no wrap": ([("(rank + 1) % size", "rank + 1")], "(rank + 1) % size"),
    "another name": (
        [("pieces = tensor", "tensor = tensor.clone()\n    pieces = tensor")],
        "`tensor = …` gives the name to a different tensor",
    ),
    "all_reduce": (
        [(RANKS, "    return dist.all_reduce(tensor)\n    rank, size = 0, 1\n")],
        "Use only sends and receives",
    ),
    "whole tensor round": ([(PROGRAM[PROGRAM.index("    pieces") :], ROUND)], "3 times the tensor"),
    "chunk": ([("tensor_split(size)", "chunk(size)")], "tensor_split(n) always makes n"),
    "float32 buffer": (
        [("empty_like(coming)", "empty(coming.shape)")],
        "96 bytes (tag 0), and rank 1",
    ),
    "no wait": ([("sending = ", ""), (WAITS, "")], "wait()"),
    "irecv dropped": ([("dist.recv(", "dist.irecv(")],
                      "recv(12 numbers, from "),
    "neighbours swapped": (
        [("(rank + 1) % size, (rank - 1) % size", "(rank - 1) % size, (rank + 1) % size")],
        "Receive what the neighbour sends now",
    ),
    "onto itself": ([("torch.empty_like(coming)", "coming")], "in a new buffer"),
    "only rank 0": (
        [("    for step", "    if rank:\n        return\n    for step")],
        "Rank 1 has neither sent nor received",
    ),
}  # fmt: skip
