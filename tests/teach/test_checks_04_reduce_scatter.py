"""Lesson 04: a reduce-scatter by messages over nodes of different sizes, on real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson04

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

OWN = program_of("04_topology", "ex1-own")
tried = tried_with_swaps(OWN, "reduce-scatter")
BODY = OWN[OWN.index("    here = [") :]
BY_LEADERS = """    tensor = tensor.clone()
    members = [r for r in range(size) if node_of[r] == node_of[rank]]
    leaders = [node_of.index(node) for node in sorted(set(node_of))]
    if rank != members[0]:
        dist.send(tensor, members[0])
        dist.recv(mine := torch.empty_like(pieces[rank]), members[0])
        return mine
    for other in members[1:]:
        come = torch.empty_like(tensor)
        dist.recv(come, other)
        tensor += come
    sums = tensor.chunk(size)
    works = []
    for leader in leaders:
        if leader != rank:
            wanted = [sums[r] for r in range(size) if node_of[r] == node_of[leader]]
            works.append(dist.isend(torch.cat(wanted), leader))
    own = torch.cat([sums[r] for r in members])
    for leader in leaders:
        if leader != rank:
            come = torch.empty_like(own)
            dist.recv(come, leader)
            own += come
    for other, piece in zip(members[1:], own.chunk(len(members))[1:]):
        works.append(dist.isend(piece.contiguous(), other))
    [work.wait() for work in works]
    return own.chunk(len(members))[0]
"""
IN_BATCHES = """    def collector(piece, node):
        if node_of[piece] == node:
            return piece
        there = [r for r in range(size) if node_of[r] == node]
        return there[piece * len(there) // size]

    def exchange(outgoing, incoming):
        buffers = [torch.zeros_like(pieces[0]) for _ in incoming]
        work = [dist.P2POp(dist.isend, what, to) for what, to in outgoing]
        work += [dist.P2POp(dist.irecv, buffer, source)
                 for buffer, (_, source) in zip(buffers, incoming)]
        for one in dist.batch_isend_irecv(work) if work else []:
            one.wait()
        return buffers

    home = node_of[rank]
    to = [collector(p, home) for p in range(size)]
    outgoing = [(pieces[p], to[p]) for p in range(size) if to[p] != rank]
    incoming = [(p, r) for p in range(size) if to[p] == rank
                for r in range(size) if node_of[r] == home and r != rank]
    sums = {p: pieces[p].clone() for p in range(size) if to[p] == rank}
    for (p, _), come in zip(incoming, exchange(outgoing, incoming)):
        sums[p] += come
    incoming = [(rank, collector(rank, node)) for node in set(node_of) if node != home]
    for come in exchange([(sums[p], p) for p in sums if p != rank], incoming):
        sums[rank] += come
    return sums[rank]
"""
CHAINS = """    # The sum of a piece passes from rank to rank. The node of its owner comes last.
    work, result = [], None
    for piece in range(size):
        home = node_of[piece]
        order = sorted(range(size), key=lambda r: (node_of[r] == home, node_of[r], r == piece, r))
        place = order.index(rank)
        so_far = pieces[piece].clone()
        if place > 0:
            come = torch.empty_like(so_far)
            dist.recv(come, src=order[place - 1], tag=piece)
            so_far.add_(come)
        if place < size - 1:
            work.append((dist.isend(so_far, order[place + 1], tag=piece), so_far))
        else:
            result = so_far
    for one, _ in work:
        one.wait()
    return result
"""


@pytest.mark.parametrize("body", [BODY, BY_LEADERS, IN_BATCHES, CHAINS],
                         ids=["solution", "leaders", "batches", "chains"])  # fmt: skip
def test_a_reduce_scatter_within_the_budget_passes(tried, capsys, body):
    lesson04.ex04_reduce_scatter(tried((BODY, body)))
    assert "✓ each piece leaves a node once" in capsys.readouterr().out


DIRECT = """    work = [dist.isend(pieces[r], r) for r in range(size) if r != rank]
    mine = pieces[rank].clone()
    for r in range(size):
        if r != rank:
            come = torch.empty_like(mine)
            dist.recv(come, r)
            mine += come
    [one.wait() for one in work]
    return mine
"""
WHOLE = DIRECT.replace("pieces[r], r", "tensor, r").replace("pieces[rank]", "tensor")
NEXT = WHOLE.replace("return mine", "return mine.chunk(size)[(rank + 1) % size]")
RING = """    sums = [one.clone() for one in pieces]
    for step in range(size - 1):
        out, into = (rank - step - 1) % size, (rank - step - 2) % size
        work = dist.isend(sums[out], (rank + 1) % size)
        come = torch.empty_like(sums[into])
        dist.recv(come, (rank - 1) % size)
        work.wait()
        sums[into] += come
    return sums[rank]
"""
INSIDE, BETWEEN = "                sums[piece] += receive(source)", "        sums[rank] += receive("
WAITS = "    for work in sending:\n        work.wait()\n"
WRONG = {
    "directly": ([(BODY, DIRECT)], "because each of its ranks sends its own"),
    "ring": ([(BODY, RING)], "A ring over all ranks sends more"),
    "by number": ([("    pieces = ", "    node_of = [r // 2 for r in range(size)]\n    pieces = ")],
                  "from node_of, not from their numbers"),
    "torch's own": ([(BODY, "    dist.reduce_scatter_single(mine := torch.empty_like(pieces[0]), "
                      "tensor)\n    return mine\n")], "The program calls reduce_scatter_single."),
    "nothing": ([(BODY, "    return pieces[rank]\n")], "the result is still this rank's own"),
    "all pieces": ([("return sums[rank]", "return torch.cat([sums[p] for p in sorted(sums)])")],
                   "the result has the shape [6, 8]"),
    "the whole sum": ([(BODY, WHOLE)], "all pieces are returned"),
    "the next piece": ([(BODY, NEXT)], "Return piece r"),
    "copied": ([(BETWEEN, "        sums[rank] = receive(")], "rank 0 are counted 0 times"),
    "own twice": ([(INSIDE, INSIDE + "\n        sums[piece] += pieces[piece] * (size > 1)")],
                  "the numbers of rank 0 are counted 2 times"),
    "without own": ([("pieces[p].clone() for p", "0 * pieces[p] for p")], "counted 0 times, not"),
    "not between": ([(BETWEEN, "        receive(")], "in a tensor that is not used"),
    "mean": ([("return sums[rank]", "return sums[rank] / size")], "the result is 0.5 times"),
    "not waited": ([(WAITS, "")], "this rank did not wait for one of these calls"),
    "no return": ([("    return sums[rank]\n", "")], "is None"),
    "of the course": ([("import torch\n", "import torch\nimport links.collectives\n")],
                      "uses links.collectives."),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_reduce_scatter_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson04.ex04_reduce_scatter, tried(*pairs))
