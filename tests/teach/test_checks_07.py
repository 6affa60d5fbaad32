"""Lesson 07: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from course_lib.teach.checks import lesson07
from course_lib.teach.checks.lesson07_gated import SMALL
from course_lib.words import told

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


def by_einsum(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    z, gate = (np.einsum("tw,wn->tn", x, each[:, mine]) for each in (w1, w3))
    return np.einsum("tn,nw->tw", silu(z) * gate, w2[mine])


def by_dot(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return np.matmul(silu(np.dot(x, w1[:, mine])) * x.dot(w3[:, mine]), w2[mine])


def by_split(x, w1, w3, w2, rank, ranks):
    z, gate = (x @ np.split(each, ranks, axis=1)[rank] for each in (w1, w3))
    return np.linalg.multi_dot([silu(z) * gate, np.array_split(w2, ranks)[rank]])


def column_by_column(x, w1, w3, w2, rank, ranks):
    found = np.zeros_like(x)
    for column in range(len(w2))[own(w2, rank, ranks)]:
        found += np.outer(silu(x @ w1[:, column]) * (x @ w3[:, column]), w2[column])
    return found


def side_by_side(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    z, gate = np.hsplit(x @ np.concatenate([w1[:, mine], w3[:, mine]], axis=1), 2)
    return np.tensordot(silu(z) * gate, w2[mine], 1)


def by_reshaping(x, w1, w3, w2, rank, ranks):
    first, third = (each.reshape(len(each), ranks, -1)[:, rank] for each in (w1, w3))
    return silu(x @ first) * (x @ third) @ w2.reshape(ranks, -1, w2.shape[1])[rank]


def by_mask(x, w1, w3, w2, rank, ranks):
    is_mine = np.arange(len(w2)) % ranks == rank
    return silu(x @ w1[:, is_mine]) * (x @ np.compress(is_mine, w3, axis=1)) @ w2[is_mine]


def in_place(x, w1, w3, w2, rank, ranks):
    mine, found = own(w2, rank, ranks), np.empty_like(x)
    z = x @ w1[:, mine]
    z /= 1 + np.exp(-z)
    z *= x @ w3[:, mine]
    np.matmul(z, w2[mine], out=found)
    return found


def by_torch(*given):
    x, w1, w3, w2 = map(torch.from_numpy, given[:4])
    mine = own(w2, *given[4:])
    gated = F.silu(F.linear(x, w1[:, mine].T)) * torch.mm(x, w3[:, mine])
    return torch.einsum("tn,nw->tw", gated, w2[mine]).numpy()


@pytest.mark.parametrize(
    "function",
    [
        right, strided, lambda *given: right(*given).tolist(), by_name, in_another_order,
        in_float32, by_einsum, by_dot, by_split, column_by_column, side_by_side, by_reshaping,
        by_mask, in_place, by_torch,
    ],
)  # fmt: skip
def test_any_way_of_dealing_out_the_columns_is_right(function):
    lesson07.ex07_gated(function)


def everything(x, w1, w3, w2, rank, ranks):
    return silu(x @ w1) * (x @ w3) @ w2


def gate_uncut(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3) @ w2[mine]


def by_rows(x, w1, w3, w2, rank, ranks):
    mine = own(w1, rank, ranks)
    return silu(x[:, mine] @ w1[mine]) * (x[:, mine] @ w3[mine]) @ w2


def wrong_partner(x, w1, w3, w2, rank, ranks):
    mine, other = own(w2, rank, ranks), own(w2, ranks - 1 - rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, other]) @ w2[mine]


def slow(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    whole = silu(x @ w1) * (x @ w3)
    return whole @ w2 / ranks + 0 * whole[:, mine] @ w2[mine]


def late(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return (silu(x @ w1) * (x @ w3))[:, mine] @ w2[mine]


def late_gate(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3)[:, mine] @ w2[mine]


def late_by_dot(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x.dot(w1)[:, mine]) * np.einsum("tw,wn->tn", x, w3[:, :])[:, mine] @ w2[mine]


def late_by_torch(*given):
    return late_of_tensors(*map(torch.from_numpy, given[:4]), *given[4:])


def late_of_tensors(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return (F.silu(x @ w1) * (x @ w3))[:, mine] @ w2[mine]


def zeroed(x, w1, w3, w2, rank, ranks):
    is_mine = np.isin(np.arange(len(w2)), np.arange(len(w2))[own(w2, rank, ranks)])
    return silu(x @ np.where(is_mine, w1, 0)) * (x @ np.where(is_mine, w3, 0)) @ w2


def masked(x, w1, w3, w2, rank, ranks):
    is_mine = np.isin(np.arange(len(w2)), np.arange(len(w2))[own(w2, rank, ranks)])
    return (silu(x @ w1) * (x @ w3) * is_mine) @ w2


def with_columns_of_the_lesson(x, w1, w3, w2, rank, ranks):
    each = 8 // ranks
    mine = slice(rank * each, (rank + 1) * each)
    return silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine]


def overlapping(x, w1, w3, w2, rank, ranks):
    mine = slice(rank * len(w2) // ranks, (rank + 2) * len(w2) // ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine]


def half_of_them(x, w1, w3, w2, rank, ranks):
    return right(x, w1, w3, w2, rank, 2)


def as_many_as_x_has(x, w1, w3, w2, rank, ranks):
    mine = own(w1, rank, ranks)
    return silu(x @ w1[:, mine]) * (x @ w3[:, mine]) @ w2[mine]


def blanking(x, w1, w3, w2, rank, ranks):
    w1[:, : rank * len(w2) // ranks] = 0
    return silu(x @ w1) * (x @ w3) @ w2


def scaling(x, w1, w3, w2, rank, ranks):
    w2 *= 0.5
    return 2 * right(x, w1, w3, w2, rank, ranks)


def silu_twice(x, w1, w3, w2, rank, ranks):
    mine = own(w2, rank, ranks)
    return silu(x @ w1[:, mine]) * silu(x @ w3[:, mine]) @ w2[mine]


NO_TIME_SAVED = "multiplied here as well, and then by zero or not used"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (everything, "Every rank computed the whole"),
        (late, NO_TIME_SAVED),
        (late_gate, NO_TIME_SAVED),
        (late_by_torch, NO_TIME_SAVED),
        (late_by_dot, NO_TIME_SAVED),
        (zeroed, NO_TIME_SAVED),
        (masked, NO_TIME_SAVED),
        (with_columns_of_the_lesson, "Of 12 columns, 6 are used by no rank and 0 by several of 3"),
        (overlapping, "Of 8 columns, 0 are used by no rank and 4 by several of 2"),
        (half_of_them, "You took 4 of 8 columns"),
        (blanking, "It changed w1 in place"),
        (scaling, "It changed w2 in place"),
        (lambda *given: right(*given[:4], given[4] - 1, given[5]), "Ranks count from 0"),
        (as_many_as_x_has, "You took 6 of 8 columns. x has as many"),
        (lambda *given: right(*given[:5], given[5] + 0.0), "TypeError: slice indices must"),
        (silu_twice, "you gave it x w3 as well"),
        (lambda *given: right(*given) / given[-1], "added, not averaged"),
        (lambda *given: right(*given[:4], 0, given[5]), "where does `rank` enter"),
        (lambda *given: everything(*given) / given[-1], "no time is saved"),
        (slow, "no time is saved"),
        (gate_uncut, "cut another way than its partner"),
        (gate_uncut, "w1 and w3 alike, by columns"),
        (by_rows, "Every rank uses all columns"),
        (lambda x, w1, w3, w2, *_: silu(x @ w1) * (x @ w3), "Is w2 missing?"),
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
        (right(*SMALL.copies().values(), 0, 1), "without calling it"),
        (..., "Replace the ..."),
        (None, "without calling it"),
    ],
)
def test_a_wrong_cut_is_told_which(function, words):
    assert words in hint_of(lesson07.ex07_gated, function)


def test_what_a_function_prints_does_not_stand_before_the_report(capsys):
    lesson07.ex07_gated(lambda *given: print("hello") or right(*given))
    assert "hello" not in capsys.readouterr().out


def test_what_is_no_mistake_of_shapes_is_not_told_as_one():
    said = hint_of(lesson07.ex07_gated, lambda *given: right(*given, 1))
    assert "TypeError" in said
    assert "Shapes that do not fit" not in said


def test_the_whole_that_must_come_out_is_told_in_korean_too():
    *_, part, whole = hint_of(lesson07.ex07_gated, half_of_them).splitlines()
    assert "With one rank" in whole
    assert "랭크가 하나면" in told(f"{part}\n{whole}", "ko")


def test_gigabytes_that_a_sample_sends():
    layer = 4096 * 8192 * 2 / 1e9
    sent = 320 * layer * 1.75
    assert sent == pytest.approx(37.58, abs=0.01)
    slips = [
        320 * layer, 320 * layer * 2, sent / 2, sent / 4, sent / 80, sent / 8, sent * 8,
        sent / 2**30 * 1e9, sent * 1e3, sent * 2, 80 * layer,
    ]  # fmt: skip
    hold("gigabytes_sent", lesson07.ex07_sent, sent, slips, accepted=[37.6, 38])
    for wrong, words in (
        (layer, "hands to the next"),
        (sent * 1.5, "six sums in a layer"),
        (sent * 322 / 320, "the sums of the embedding and of the output as well"),
        (37.8, "the sums of the embedding and of the output as well"),
        (40, "That is rounded too far"),
    ):
        assert words in hint_of(lesson07.ex07_sent, wrong)


def test_all_ranks_have_to_compute():
    def on_one(x, w1, w3, w2, rank, ranks):
        return right(x, w1, w3, w2, 0, 1) * (rank == 0)

    said = hint_of(lesson07.ex07_gated, on_one)
    assert "Of 4 ranks, 1 compute" in said
    assert "3 of 12 columns" in said
