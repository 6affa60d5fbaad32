"""Answers that every check of a number is tried with: right ones, nonsense, likely slips."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.teach.checklist import NotYet


def forms(right):
    """The same number in every form that a cell of a notebook may leave behind."""
    import torch

    found = [
        float(right), np.float64(right), np.float32(right), Fraction(right), Decimal(repr(right)),
        np.array(right), np.array([[right]], np.float32), pd.Series([right], index=["ms"]),
        torch.tensor(right), np.longdouble(right), str(right), f"about {right!r}", f" {right:,} ",
    ]  # fmt: skip
    if float(right).is_integer():
        found += [int(right), np.int64(right), torch.tensor(int(right))]
    return found


def nonsense(right):
    return [
        ..., [right], (np.float64(right),), {right}, {"answer": right}, iter([right]),
        f"[{right}]", [-3], complex(right), np.array([-right, right]), None, "", "many", "1 or 2",
        f"not {right}", b"\xff", float("nan"), -float("inf"), Decimal("NaN"), 10**400, 10**5000,
        True, np.True_, [], (right, right), np.array([]), pd.Series([right, right]),
        pd.DataFrame({"a": [right, 1]}), np.array(["a"]), pd.Timestamp(0), pd.NaT, object(),
        in_itself(), Hostile(), Hostile, int, print, Recipe(name="dp4", commands="hostname"),
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


def told(check, answer):
    """What a refused answer is told; None for one that is accepted. Nothing else may happen."""
    try:
        check(answer)
    except NotYet as refused:
        return str(refused)
    return None


def hold(gap, check, right, wrong, *, accepted=()):
    """The check of this gap takes the right number in every form, refuses nonsense with a
    sentence, and answers each wrong number with the words that `wrong` has for it."""
    refused = [form for form in (*forms(right), *accepted) if told(check, form) is not None]
    assert not refused, refused
    assert told(check, -right) is not None
    for answer in nonsense(right):
        *_lines, requirement, hint = told(check, answer).splitlines()
        assert requirement.startswith(f"✗ {gap} is ")
        assert len(hint.strip()) > 10
    assert len(wrong) >= 3
    said_of = {answer: told(check, answer) or "accepted" for answer in wrong}
    missed = [(answer, said) for answer, said in said_of.items() if wrong[answer] not in said]
    assert not missed, missed
    chance = random.Random(gap)
    for _time in range(20):
        number = chance.choice((-1, 1, 1)) * 10 ** chance.uniform(-12, 15)
        if told(check, number) is None:
            assert number == pytest.approx(right, rel=0.35)
