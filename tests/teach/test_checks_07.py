"""Lesson 07: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import sys

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


@pytest.mark.parametrize(
    "function",
    [
        right, strided, lambda *given: right(*given).tolist(), by_name, in_another_order,
        in_float32,
    ],
)  # fmt: skip
def test_any_way_of_dealing_out_the_columns_is_right(function):
    lesson07.ex07_gated(function)


def everything(x, w1, w3, w2, rank, ranks):
    return silu(x @ w1) * (x @ w3) @ w2


def gate_uncut(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3) @ w2[mine]


def wrong_partner(x, w1, w3, w2, rank, ranks):
    mine, other = own(w2, rank, ranks), own(w2, ranks - 1 - rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, other]) @ w2[mine]


def slow(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    whole = silu(x @ w1) * (x @ w3)
    return whole @ w2 / ranks + 0 * whole[:, mine] @ w2[mine]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (everything, "Every rank computed the whole"),
        (lambda *given: right(*given) / given[-1], "added, not averaged"),
        (lambda *given: right(*given[:4], 0, given[5]), "where does `rank` enter"),
        (lambda *given: everything(*given) / given[-1], "no time is saved"),
        (slow, "no time is saved"),
        (gate_uncut, "cut another way than its partner"),
        (wrong_partner, "Which columns of w3"),
        (lambda x, w1, w3, w2, rank, ranks: silu(x @ w1) * (x @ w1) @ w2, "With one rank"),
        (lambda x, w1, w3, *rest: right(x, w3, w1, *rest), "you gave it x w3"),
        (lambda x, w1, w3, w2, *_: silu(x @ w1) @ w2, "The gate x w3 is missing"),
        (lambda x, w1, w3, w2, *_: (x @ w1) * (x @ w3) @ w2, "silu is missing"),
        (lambda *given: sys.exit(), "it ends the program"),
        (lambda *given: None, "gave nothing"),
        (lambda *given: ..., "gave the ..."),
        (lambda *given: right(*given).sum(), "a row for each token"),
        (lambda *given: "text", "a row for each token"),
        (lambda x: x, "TypeError"),
        (right(*lesson07.matrices(), 0, 1), "without calling it"),
        (..., "Replace the ..."),
        (None, "without calling it"),
    ],
)
def test_a_wrong_cut_is_told_which(function, words):
    assert words in hint_of(lesson07.ex07_gated, function)


def test_gigabytes_that_a_sample_sends():
    layer = 4096 * 8192 * 2 / 1e9
    sent = 320 * layer * 1.75
    assert sent == pytest.approx(37.58, abs=0.01)
    slips = [
        320 * layer, 320 * layer * 2, sent / 2, sent / 4, sent / 80, sent / 8, sent * 8,
        sent / 2**30 * 1e9, sent * 1e3, sent * 2, 80 * layer,
    ]  # fmt: skip
    hold("gigabytes_sent", lesson07.ex07_sent, sent, slips)


def test_all_ranks_have_to_compute():
    def on_one(x, w1, w3, w2, rank, ranks):
        return right(x, w1, w3, w2, 0, 1) * (rank == 0)

    said = hint_of(lesson07.ex07_gated, on_one)
    assert "Of 4 ranks, 1 compute" in said
    assert "2 of 8 columns" in said
