"""Lesson 13b: attention whose keys and values go round a ring of real ranks."""

from __future__ import annotations

import pytest

from course_lib.teach.checks import lesson13b

from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

RING = program_of("13b_long_sequences_by_hand", "around-own")
tried = tried_with_swaps(RING, "ring-attention")
ROUND = RING[RING.index("        largest = queries.new_full") : RING.index("        ctx.save_for")]
BACK = RING[RING.index("        row_sum, root") : RING.index("        return dqueries")]
SENDS = RING[RING.index("    boxes =") : RING.index("    return boxes")]
BY_PARTS = """        y, log_sum = torch.zeros_like(queries), torch.tensor(float("-inf"))
        held, size = [keys, values, positions], dist.get_world_size()
        for step in range(size):
            scores = scores_of(queries, held[0], positions, held[2])
            both = torch.logaddexp(log_sum, scores.logsumexp(1, keepdim=True))
            y = y * (log_sum - both).exp() + (scores - both).exp() @ held[1]
            log_sum = both
            if step < size - 1:
                held = pass_on(*held)
"""
IN_ONE_MESSAGE = """    row = torch.cat([one.double().flatten() for one in tensors])
    came = torch.empty_like(row)
    peers = [(dist.isend, row, (rank + 1) % size), (dist.irecv, came, (rank - 1) % size)]
    for work in dist.batch_isend_irecv([dist.P2POp(*one) for one in peers]):
        work.wait()
    parts = came.split([one.numel() for one in tensors])
    boxes = [part.view(one.shape).to(one.dtype) for part, one in zip(parts, tensors)]
"""
GRADIENTS_AFTERWARDS = """        size = dist.get_world_size()
        piece, home = (keys, values, positions), [torch.zeros_like(keys), torch.zeros_like(values)]
        dqueries = 0
        for step in range(size):
            k, v, of_k = piece
            p = (scores_of(queries, k, positions, of_k) - log_sum).exp()
            dp = grad @ v.T
            ds = p.mul(dp - torch.einsum("ij,ij->i", grad, y)[:, None]) / queries.shape[1] ** 0.5
            dqueries = dqueries + ds.mm(k)
            home = [home[0] + ds.T.mm(queries), home[1] + p.T.mm(grad)]
            home = pass_on(*home)
            piece = pass_on(*piece) if step < size - 1 else piece
        dkeys, dvalues = home
"""


@pytest.mark.parametrize(
    "pairs",
    [
        [], [(ROUND, BY_PARTS)], [(SENDS, IN_ONE_MESSAGE)], [(BACK, GRADIENTS_AFTERWARDS)],
        [("(rank + 1)", "(rank - 1 + size)"), ("box, (rank - 1)", "box, (rank + 1)")],
    ],
    ids=["solution", "parts", "one message", "gradients alone", "other direction"],
)  # fmt: skip
def test_right_rings_pass(tried, capsys, pairs):
    lesson13b.ex13b_ring(tried(*pairs))
    assert "no rank keeps keys or values of other ranks" in capsys.readouterr().out


def first(module):
    return "import torch\n", f"import torch\nimport {module} as own\n"


ARRIVES = "                piece = pass_on(*piece)\n"
LAST = "keys, values, of_keys, dkeys, dvalues = pass_on(keys, values, of_keys, dkeys, dvalues)"
BY_AUTOGRAD = """
class Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return pass_on(x)[0].clone()

    @staticmethod
    def backward(ctx, grad):
        for _ in range(dist.get_world_size() - 1):
            grad = pass_on(grad)[0]
        return grad.clone()


def ring_attention(queries, keys, values, positions):
    parts, of_keys = [], positions
    for _ in range(dist.get_world_size()):
        scores = scores_of(queries, keys, positions, of_keys)
        parts.append((scores.logsumexp(1, keepdim=True), scores, values))
        keys, values, of_keys = Move.apply(keys), Move.apply(values), pass_on(of_keys)[0].clone()
    log_sum = torch.cat([one[0] for one in parts], 1).logsumexp(1, keepdim=True)
    return sum(torch.exp(scores - log_sum) @ values for _, scores, values in parts)
"""
GATHERED = """        k, v, p = (torch.cat(every(x)) for x in (keys, values, positions))
        scores = scores_of(queries, k, positions, p)
        y, log_sum = scores.softmax(1) @ v, scores.logsumexp(1, keepdim=True)
"""
COLLECTED = """        pieces = [(keys, values, positions)]
        for _ in range(dist.get_world_size() - 1):
            pieces.append(pass_on(*pieces[-1]))
        k, v, p = map(torch.cat, zip(*pieces))
        scores = scores_of(queries, k, positions, p)
        y, log_sum = scores.softmax(1) @ v, scores.logsumexp(1, keepdim=True)
"""
EVERY = """

def every(x):
    whole = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(whole, x.contiguous())
    return whole
"""
WRONG_RINGS = {
    "keys stay": ([(ARRIVES, "                pass_on(*piece)\n")], "that pass_on returned"),
    "positions stay": ([("positions, piece[2])", "positions, positions)")], "positions on with"),
    "a piece's own largest": (
        [("torch.maximum(largest, scores.amax(1, keepdim=True))",
          "scores.amax(1, keepdim=True)")],
        "sees no key of a piece"),
    "the sum does not shrink": ([("= shrink * total", "= total")], "by the same factor"),
    "the output does not shrink": ([("= shrink * out", "= out")], "by the same factor"),
    "no largest": ([("torch.exp(scores - largest)", "torch.exp(scores)"),
                    ("torch.exp(before - largest)", "1"), ("largest + torch.log", "torch.log")],
                   "exp() of a score of 1000"),
    "by autograd": ([("\ndef ring_attention", BY_AUTOGRAD + "\ndef unused")], "keeps"),
    "gathered": ([(ROUND, GATHERED), ("\n\n\ndef scores_of", EVERY + "\n\ndef scores_of")],
                 "Use only sends and receives"),
    "collected": ([(ROUND, COLLECTED)], "has a tensor with all positions"),
    "no row sum": ([(" - row_sum", "")], "the row sum of dY * Y"),
    "no root": ([(" / root", "")], "dK = dSᵀ Q/√w"),
    "own gradients": (
        [(LAST, LAST.replace("dkeys, dvalues = ", "*_ = ")),
         ("            dkeys += ", "            dkeys += (_ == 0) * "),
         ("            dvalues += ", "            dvalues += (_ == 0) * ")],
        "from the queries of this rank alone"),
    "gradients stay": ([(LAST, "keys, values, of_keys = pass_on(keys, values, of_keys)")],
                       "pass them on with the keys and values"),
    "one step short": ([(LAST, f"if _ < dist.get_world_size() - 1:\n                {LAST}")],
                       "once more after the last piece"),
    "of the course": ([first("parallel.ring_attention")], "uses parallel.ring_attention."),
    "torch's own": ([first("torch.distributed.tensor.experimental")],
                    "uses torch.distributed.tensor.experimental."),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG_RINGS)
def test_a_wrong_ring_is_told_its_mistake(tried, name):
    pairs, words = WRONG_RINGS[name]
    assert words in hint_of(lesson13b.ex13b_ring, tried(*pairs))
