"""Lesson 07: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from course_lib.teach.checks import lesson07

from .answers_to_try import hold
from .finished_runs import hint_of

pytestmark = pytest.mark.usefixtures("workspace")


def silu(z):
    return z / (1 + np.exp(-z))


def own(w, rank, ranks):
    return slice(rank * len(w) // ranks, (rank + 1) * len(w) // ranks)


def right(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine]


def strided(x, w1, w3, w2, rank, ranks):
    mine = slice(rank, None, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine]


def by_name(*, w1, w2, w3, x, ranks, rank):
    return right(x, w1, w3, w2, rank, ranks)


def in_another_order(rank, ranks, x, w1, w2, w3):
    return right(x, w1, w3, w2, rank, ranks)


def in_float32(x, w1, w3, w2, rank, ranks):
    x, w1, w3, w2 = (torch.tensor(each, dtype=torch.float32) for each in (x, w1, w3, w2))
    mine = own(w2, rank, ranks)
    return torch.nn.Parameter(F.silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine])


def by_torch(*given):
    x, w1, w3, w2 = map(torch.from_numpy, given[:4])
    mine = own(w2, *given[4:])
    gated = F.silu(F.linear(x, w1[:, mine].T)) * torch.mm(x, w3[:, mine])
    return torch.einsum("tn,nw->tw", gated, w2[mine]).numpy()


@pytest.mark.parametrize(
    "function",
    [
        right, strided, lambda *given: right(*given).tolist(), by_name, in_another_order,
        in_float32, by_torch,
    ],
)  # fmt: skip
def test_any_way_of_sharing_the_columns_is_right(function):
    lesson07.ex07_gated(function)


def everything(x, w1, w3, w2, rank, ranks):
    return silu(x @ w1) * (x @ w3) @ w2


def gate_uncut(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3) @ w2[mine]


def by_rows(x, w1, w3, w2, rank, ranks):
    mine = own(w1, rank, ranks)
    return silu(x[:, mine] @ w1[mine]) * (x[:, mine] @ w3[mine]) @ w2


def late(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return (silu(x @ w1) * (x @ w3))[:, mine] @ w2[mine]


def masked(x, w1, w3, w2, rank, ranks):
    is_mine = np.isin(np.arange(len(w2)), np.arange(len(w2))[own(w2, rank, ranks)])
    return (silu(x @ w1) * (x @ w3) * is_mine) @ w2


def scaling(x, w1, w3, w2, rank, ranks):
    w2 *= 0.5
    return 2 * right(x, w1, w3, w2, rank, ranks)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (everything, "Every rank computed the whole"),
        (late, "columns of other ranks are multiplied too"),
        (masked, "Rank 0 of 4 uses 12 of 12 columns"),
        (scaling, "Your function changed w2 in place"),
        (lambda *given: right(*given[:5], given[5] + 0.0), "TypeError: slice indices must"),
        (lambda *given: right(*given) / given[-1], "added, not averaged"),
        (lambda *given: right(*given[:4], 0, given[5]), "Where do you use `rank`"),
        (gate_uncut, "ValueError"),
        (by_rows, "Cut w1 and w3 by columns"),
        (lambda x, w1, w3, w2, *_: silu(x @ w1) * (x @ w3), "Is w2 missing?"),
        (lambda x, w1, w3, w2, *_: silu(x @ w1) * (x @ w1) @ w2, "With one rank"),
        (lambda x, w1, w3, *rest: right(x, w3, w1, *rest), "silu(z) is z / (1 + exp(−z))"),
        (lambda x, w1, w3, w2, *_: silu(x @ w1) @ w2, "silu(z) is z / (1 + exp(−z))"),
        (lambda x, w1, w3, w2, *_: (x @ w1) * (x @ w3) @ w2, "silu(z) is z / (1 + exp(−z))"),
        (lambda x, w1, w3, w2, *_: silu((x @ w1) * (x @ w3)) @ w2, "silu(z) is z / (1 + exp(−z))"),
        (lambda x, w1, w3, w2, *_: (silu(x @ w1) + x @ w3) @ w2, "silu(z) is z / (1 + exp(−z))"),
        (lambda *given: sys.exit(), "the function ends the program"),
        (lambda *given: None, "returned nothing"),
        (lambda *given: right(*given).sum(), "a row for each token"),
        (lambda *given: "text", "ValueError"),
        (lambda *given: lesson07.SMALL.whole(), "the function calls whole of the course"),
        (..., "Replace the ..."),
        (None, "without calling it"),
    ],
)
def test_a_wrong_cut_is_told_which(function, words):
    assert words in hint_of(lesson07.ex07_gated, function)


def test_what_a_function_prints_does_not_stand_before_the_report(capsys):
    lesson07.ex07_gated(lambda *given: print("hello") or right(*given))
    assert "hello" not in capsys.readouterr().out


def test_gigabytes_that_a_sample_sends():
    layer = 4096 * 8192 * 2 / 1e9
    sent = 320 * layer * 1.75
    wrong = {
        320 * layer: "is sent more than once", sent / 2: "the output of a layer",
        sent / 80: "the amount for one layer", 80 * layer: "one sum in each layer, sent once",
        sent * 1.5: "six sums in a layer", sent * 322 / 320: "You answered", 37.8: "You answered",
    }  # fmt: skip
    given = SimpleNamespace(layers=80, tokens=4096)
    hold(
        "gigabytes_sent",
        lambda answer: lesson07.ex07_sent(answer, given),
        sent,
        wrong,
        accepted=[37.6, 38, "37.6 GB"],
    )


def test_all_ranks_have_to_compute():
    def on_one(x, w1, w3, w2, rank, ranks):
        return right(x, w1, w3, w2, 0, 1) * (rank == 0)

    assert "Rank 0 of 4 uses 12 of 12 columns" in hint_of(lesson07.ex07_gated, on_one)
