"""Answers for the tests of every check of a number: right ones, nonsense and likely slips."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist, NotYet


def forms(right):
    """Return the same number in every form that a notebook cell may produce."""
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
    """Object that refuses every operation that a check may try on it."""

    def _refuse(self, *given):
        raise RuntimeError("no")

    __eq__ = __bool__ = __repr__ = __str__ = __len__ = __iter__ = __float__ = __getattr__ = _refuse
    __hash__ = None


def in_itself():
    found = []
    found.append(found)
    return found


def told(check, answer):
    """Return the message for a refused answer, or None for an accepted one. Nothing else may
    happen."""
    try:
        check(answer)
    except NotYet as refused:
        return str(refused)
    return None


def hold(gap, check, right, wrong, *, accepted=()):
    """Assert that the gap's check accepts the right number in every form, refuses nonsense with a
    sentence, and answers each wrong number with its words in `wrong`."""
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
    names_no_slip_that_was_not_made(check, right)
    chance = random.Random(gap)
    for _time in range(20):
        number = chance.choice((-1, 1, 1)) * 10 ** chance.uniform(-12, 15)
        if told(check, number) is None:
            assert number == pytest.approx(right, rel=0.35)


# Factors of mistakes that learners make anywhere.
FACTORS = (2, 3, 4, 6, 8, 10, 12, 16, 24, 60, 96, 100, 1000, 1024, 1.024, 2**20 / 1e6, 2**30 / 1e9)


def names_no_slip_that_was_not_made(check, right):
    """Assert that a hint names a mistake only if this mistake leads to exactly the wrong number."""
    of_gap = [one for one in amounts_of(check, right) if one.right == pytest.approx(right, 0.02)]
    wanted = of_gap[0] if of_gap else Amount(right=right)
    assert len(wanted.slips) <= 4
    chance = random.Random(right)
    factors = [1 / one for one in FACTORS] + [*FACTORS]
    wrong = [
        wanted.right * chance.choice(factors) * chance.choice((1, *factors)) for _ in range(99)
    ]
    wrong += [wanted.right * 10 ** chance.uniform(-1, 1) for _ in range(999)]
    wrong += [value * chance.uniform(0.8, 1.2) for value, _said in wanted.slips for _ in range(99)]
    for number in [*wrong, *(float(f"{number:.2g}") for number in wrong)]:
        made = {said for value, said in wanted.slips if abs(number / value - 1) < 0.0051}
        said = wanted.slip(number)
        assert not said or made == {said}, (number, said)
        assert not (said and wanted.is_met_by(number)), (number, said)
    for value, said in wanted.slips:
        assert wanted.slip(value) in ("", said)


def amounts_of(check, right):
    """Return the amounts with which a check compares its numbers."""
    found, amount = [], Checklist.amount
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Checklist, "amount",
            lambda self, given, wanted, *rest, **hint: (
                found.append(wanted), amount(self, given, wanted, *rest, **hint)
            ),
        )  # fmt: skip
        check(right)
    return found
