"""Answers that every check of a number is tried with: right ones, nonsense, likely slips."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt
from course_lib.teach.checklist import NotYet

GENERIC = "You answered"
"""Begins the last hint, which names no mistake."""


def forms(right):
    """The same number in every form that a cell of a notebook may leave behind."""
    import torch

    found = [
        float(right), np.float64(right), np.float32(right), Fraction(right), Decimal(repr(right)),
        np.array(right), np.array([right]), np.array([[right]], np.float32), pd.Series([right]),
        pd.Series([right], index=["ms"]), pd.Index([right]), torch.tensor(right),
        torch.tensor([right], dtype=torch.float64), [right], (np.float64(right),), [[right]],
        {right}, {"answer": right}, pd.DataFrame({"a": [right]}), iter([right]),
        np.longdouble(right), str(right), f"about {right!r}", f" {right:,} ",
        np.array([str(right)]), str(right).encode(),
    ]  # fmt: skip
    if float(right).is_integer():
        whole = int(right)
        found += [whole, np.int64(whole), Fraction(whole), torch.tensor(whole), Decimal(whole)]
    return found


def nonsense(right):
    return [
        ..., None, "", "many", "1 or 2", f"not {right}", "many MB", b"\xff", float("nan"),
        float("inf"), -float("inf"), np.float32("nan"), Decimal("NaN"), 10**400, 10**5000, True,
        np.True_, 1 + 2j,
        np.complex64(1), [], (right, right), {right, 0.1}, {"answer": right, "b": 1}, np.array([]),
        np.array([right, right]), pd.Series([right, right]), pd.Series(dtype=float),
        pd.DataFrame({"a": [right, 1]}), np.array(["a"]), pd.Timestamp(0), pd.NaT, pd.NA, object(),
        in_itself(), Hostile(), Hostile, int, iter(()), print,
        Recipe(name="dp4", commands="hostname"), gpt.recipe("dp4", nodes=...),
    ]  # fmt: skip


class Hostile:
    """Refuses all that a check may ask of it."""

    def _refuse(self, *given):
        raise RuntimeError("no")

    __eq__ = __bool__ = __repr__ = __str__ = __len__ = __iter__ = __float__ = __getattr__ = _refuse
    __hash__ = None


def in_itself():
    found = []
    found.append(found)
    return found


def sizes(right, of_bytes):
    """A size given in another unit, with other bytes for each number."""
    units = {"MB": 1e6, "MiB": 2**20}
    others = (1 / 8, 1, 1e3, 2**10, 1e6, 2**20, 1e9, 2**30)
    found = [right * units[of_bytes] / other for other in others if other != units[of_bytes]]
    return [*found, right / 4, right / 2, right * 2]


def told(check, answer):
    """What a refused answer is told; None for one that is accepted. Nothing else may happen."""
    try:
        check(answer)
    except NotYet as refused:
        return str(refused)
    return None


def hold(gap, check, right, wrong, *, accepted=()):
    """The check of this gap takes the right number in every form, refuses nonsense with a
    sentence, and names the mistake of each likely wrong answer."""
    refused = [form for form in (*forms(right), *accepted) if told(check, form) is not None]
    assert not refused, refused
    for answer in nonsense(right):
        said = told(check, answer)
        assert said is not None, answer
        *_, requirement, hint = said.splitlines()
        assert requirement.startswith(f"✗ {gap} is ")
        assert len(hint.strip()) > 10
    assert len(set(wrong)) >= 3
    said_of = {answer: told(check, answer) for answer in wrong}
    unnamed = [answer for answer, said in said_of.items() if said is None or GENERIC in said]
    assert not unnamed, unnamed
    chance = random.Random(gap)
    for _ in range(20):
        number = chance.choice((-1, 1, 1)) * 10 ** chance.uniform(-12, 15)
        if told(check, number) is None:
            assert number == pytest.approx(right, rel=0.35)
